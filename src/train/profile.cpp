// Times the steps of a training tape one by one. The training loop itself does not time them.
#include "base/quantile.h"
#include "train/trainer.h"

namespace convoy {

namespace {

/// Returns a tape in which each all-reduce and the wait for it are one step.
Tape without_overlap(Backend& backend, const Tape& tape) {
    Tape waiting, steps;
    backend.wait_allreduce(waiting);
    for (const Step& step : tape) {
        if (step.lane == Lane::compute) {
            steps.push_back(step);
            continue;
        }
        steps.push_back({step.id, step.lane, [run = step.run, waiting] {
                             run();
                             for (const Step& wait : waiting) wait.run();
                         }});
    }
    return steps;
}

}  // namespace

std::vector<StepTime> Trainer::profile(int64_t steps) {
    const Runnable& program = measured();
    Tape whole = without_overlap(backend_, program.tape);
    whole.append(program.ending);
    std::vector<std::vector<double>> times(whole.size());
    const Phase phase(comm_.activity(), "profile", "step", 0, steps);
    for (int64_t s = 0; s < steps; ++s) {
        comm_.activity().advance(s);
        step_ = 0;  // repeats step 0, because schedule and sample order have an end
        upload_counters(0);
        supply_batch();
        comm_.barrier();  // so that the first all-reduce does not include waiting for a late rank
        const std::vector<double> seconds = backend_.time_steps(whole);
        for (size_t i = 0; i < whole.size(); ++i) times[i].push_back(seconds[i]);
    }
    std::vector<StepTime> medians;
    for (size_t i = 0; i < whole.size(); ++i) medians.push_back({whole[i].id, median(times[i])});
    comm_.activity().enter("host code between operations");
    return medians;
}

}  // namespace convoy
