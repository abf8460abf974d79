// Does a device keep its bits and its speed for long? Each rank repeats a training of the level
// bits, and compares the bits of each step with those of the first repetition.
#pragma once
#include "accept/bits.h"

namespace convoy {

/// A repetition of the training.
struct EnduranceSample {
    double at = 0;                ///< end, in seconds since the level began
    double steps_per_second = 0;  ///< of the repetition; building the training counts too
    double clock_hz = NAN, celsius = NAN;
};

/// Keeps at most `most` samples, evenly spread over all that were added. The choice depends only on
/// how many were added, so that all ranks keep the same repetitions.
class EnduranceCurve {
public:
    explicit EnduranceCurve(size_t most) : most_(most) {}
    void add(const EnduranceSample&);
    const std::vector<EnduranceSample>& samples() const { return samples_; }

private:
    size_t most_;  ///< at least 2
    size_t stride_ = 1, added_ = 0;
    std::vector<EnduranceSample> samples_;
};

/// The repetitions of one rank.
struct RankEndurance {
    std::string host;
    std::string deviations{};  ///< "1 of 90 repetitions: step 3 after 12 s"; empty: none
    std::vector<EnduranceSample> samples{};
};
/// Finds ranks that did not repeat their bits. `steps`: of each rank.
LevelResult judge_endurance(const std::vector<RankEndurance>&, int64_t steps, double seconds);

/// Repeats a case on each rank alone for `minutes`. `device`: asked for clock and temperature.
/// Collective; the result is the same on every rank.
LevelResult endurance_level(Comm& world, const DeviceChoice&, Backend& device, const BitsCase&, double minutes);

}  // namespace convoy
