// Learning rate by optimizer step, as a pure function, so that the whole schedule can lie on the
// device before step one.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

struct Schedule {
    enum Kind { constant, step, multistep, cosine, linear } kind = constant;
    double base = 0.1;                              ///< learning rate before any factor
    double warmup_epochs = 0;                       ///< linear from 0, multiplied with the schedule
    double gamma = 0.1;                             ///< step, multistep: factor at each milestone
    double step_epochs = 30;                        ///< step: epochs between milestones
    std::vector<double> milestones;                 ///< multistep: epochs
    std::vector<std::pair<double, double>> points;  ///< linear: (epoch, factor), rising epochs, constant outside
    /// points are (share of the run, factor), each at the last whole step before it
    bool points_of_run = false;
};

/// Learning rate of step `step` (from 0) of a run of `total` steps.
double learning_rate(const Schedule&, int64_t step, int64_t steps_per_epoch, int64_t total);

/// What the average of look-ahead keeps of itself, by steps done, from 0 to `total`: decay^every *
/// (step / total)^3 at every `every`-th step, else -1, nothing happens; and 1 at the end, if that
/// is no such step, so that the weights become the average.
std::vector<float> look_ahead_decays(int64_t every, double decay, int64_t total);

}  // namespace convoy
