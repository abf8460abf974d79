// The learning rate of every optimizer step, as a pure function: the whole schedule is uploaded to
// the device before the first step.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

struct Schedule {
    enum Kind { constant, step, multistep, cosine, linear } kind = constant;
    double base = 0.1;                              ///< learning rate before any factor
    double warmup_epochs = 0;                       ///< length of a linear rise from 0, which multiplies the schedule
    double gamma = 0.1;                             ///< step, multistep: factor at each milestone
    double step_epochs = 30;                        ///< step: epochs between milestones
    std::vector<double> milestones;                 ///< multistep: epochs
    std::vector<std::pair<double, double>> points;  ///< linear: (epoch, factor), rising epochs, constant outside
    /// true: points are (share of the run, factor); each share is rounded down to a whole step
    bool points_of_run = false;
};

/// Returns the learning rate of step `step` (from 0) of a run of `total` steps.
double learning_rate(const Schedule&, int64_t step, int64_t steps_per_epoch, int64_t total);

/// Returns the decays of look-ahead's average, [total + 1], by completed steps. A decay is the
/// share of the old average that is kept. Every `every`-th step has decay^every * (step / total)^3.
/// Other steps have -1, because they do not update the average. If the last step is not an
/// `every`-th one, it has 1: the average stays, and becomes the weights.
std::vector<float> look_ahead_decays(int64_t every, double decay, int64_t total);

}  // namespace convoy
