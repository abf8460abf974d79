// Does every device compute the same bits? Each rank trains the same few steps alone. A hash of
// losses, gradients and weights after each step is compared over all ranks whose devices are of one
// kind. Then all ranks together train the same steps as logical ranks. They must get the hashes
// that a rank got alone, which proves network and reductions bit for bit.
#pragma once
#include <map>

#include "accept/devices.h"
#include "accept/verdict.h"

namespace convoy {

/// A short training that gives the same bits on each device of one kind, and on any number of
/// ranks: each image of a batch is a logical rank.
struct BitsCase {
    std::string model;
    int side = 0;  ///< of the square images, in pixels
    int64_t batch = 0, steps = 0;

    std::string name() const;  ///< "resnet18 32x32, batch 8, 3 steps"
};

/// A hash for each step of one rank's training, as 16 hexadecimal digits.
using StepHashes = std::vector<std::string>;

/// Returns the first step, from 1, in which two trainings differ; 0 if they do not.
size_t first_difference(const StepHashes&, const StepHashes&);

/// The bits that one rank computed alone.
struct RankBits {
    std::string host, device;
    std::string kind;  ///< DeviceFacts::kind: only ranks of one kind are compared
    StepHashes steps;
    StepHashes again{};  ///< those of a second training; empty: it was not repeated
};

/// The hashes that a kind of device is known to give, by kind and BitsCase::name().
using Fingerprints = std::map<std::pair<std::string, std::string>, StepHashes>;

/// Finds ranks that differ from the majority of their kind, or from the fingerprint of the kind,
/// and the first step in which they do. `together`: the hashes that each rank computed when all
/// ranks trained together; empty if there is one rank.
LevelResult compare_bits(const BitsCase&, const std::vector<RankBits>& alone, const std::vector<StepHashes>& together,
                         const Fingerprints& known = {});

/// Returns for each rank the index of the rank that it should agree with: the lowest one of the
/// majority of its kind; -1 if its kind has no majority.
std::vector<int> majority_of(const std::vector<RankBits>&);

/// The hash of an operation's output.
struct OutputHash {
    std::string name;  ///< "stage1.block0.conv1 (conv backward)"
    std::string hash;
    bool operator==(const OutputHash&) const = default;
};

/// Trains a case on the ranks of `comm`, and hashes each step. A training whose losses stay
/// infinite or NaN ends early, with fewer hashes. Collective.
StepHashes train_bits(Comm& comm, const DeviceChoice&, const BitsCase&);
/// Trains up to step `step`, counted from 1, runs that step operation by operation, and hashes each
/// output. Collective.
std::vector<OutputHash> outputs_of_step(Comm& comm, const DeviceChoice&, const BitsCase&, int64_t step);

/// Runs the level on all ranks of `world`. `seen`: gets the hashes of cases that do not fail; null:
/// not wanted. Collective; the result is complete on every rank.
LevelResult bits_level(Comm& world, const DeviceChoice&, const std::vector<BitsCase>&, const Fingerprints& known,
                       Fingerprints* seen = nullptr);

}  // namespace convoy
