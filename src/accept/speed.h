// Is every device as fast as the others? Each rank is timed alone on its node, then at the same
// time as all others but without exchanging gradients, then together with them.
#pragma once
#include "accept/devices.h"
#include "accept/verdict.h"
#include "model/models.h"
#include "plan/cluster.h"

namespace convoy {

/// A training step to time.
struct SpeedCase {
    std::string model;
    int side = 0;       ///< of the square images, in pixels
    int64_t batch = 0;  ///< images per rank
    int64_t warmup = 3, steps = 30;

    ModelOptions options() const;  ///< of 10 classes
};

/// Images per second of one rank: medians over the steps.
struct RankSpeed {
    std::string host, device, kind;
    double alone = 0;                      ///< while the other ranks of its node wait
    double beside = 0;                     ///< while all ranks compute, each for itself
    double clock_hz = NAN, celsius = NAN;  ///< of the device after it worked; NaN: not known
};

/// Finds ranks that are slower than their kind. A rank is slow if it is below the median of its
/// kind by 10 % and by four times the scaled median absolute deviation. With fewer than four ranks
/// of the kind, it is slow if it is 10 % below the fastest. Fails only if a rank is slow alone, its
/// kind has ranks on another host, and there are at least four ranks. `together`: images per second
/// of all ranks when they exchange gradients; 0: not measured.
LevelResult compare_speeds(const std::vector<RankSpeed>&, double together);

/// Returns true if a rate is more than 10 % below the usual rate of its kind. Measure again then,
/// because something may have disturbed the measurement.
bool is_doubtful(const std::vector<RankSpeed>&);

/// Replaces `best` by `now`, but keeps higher rates of `best`. Disturbances only make a rank
/// slower, so the highest rate is nearest to what the device can do.
void keep_best(std::vector<RankSpeed>& best, const std::vector<RankSpeed>& now);

/// Runs the level. Measures up to three times while rates are doubtful. `cluster`: predicts the
/// speed of all ranks; null: no prediction. Collective; the result is the same on every rank.
LevelResult speed_level(Comm& world, const DeviceChoice&, const SpeedCase&, const Cluster* cluster = nullptr);

}  // namespace convoy
