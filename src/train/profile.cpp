// Times the steps of a training tape one by one. The training loop itself reads no clocks.
#include "base/quantile.h"
#include "train/trainer.h"

namespace convoy {

std::vector<StepTime> Trainer::profile(int64_t steps) {
    const Runnable& program = programs_.front();
    Tape whole = program.tape;
    whole.insert(whole.end(), program.ending.begin(), program.ending.end());
    Tape waiting;
    backend_.wait_allreduce(waiting);
    std::vector<std::vector<double>> times(whole.size());
    const Phase phase(comm_.activity(), "profile", "step", 0, steps);
    for (int64_t s = 0; s < steps; ++s) {
        comm_.activity().advance(s);
        step_ = 0;  // the schedule and the order of samples end somewhere
        upload_counters(0);
        comm_.barrier();  // waiting for a rank that is late is no part of the first sum
        for (size_t i = 0; i < whole.size(); ++i) {
            comm_.activity().enter(whole[i].id.name.c_str());
            const auto start = Clock::now();
            whole[i].run();
            if (whole[i].lane == Lane::communication)
                for (const Step& wait : waiting) wait.run();
            backend_.synchronize();
            times[i].push_back(seconds_since(start));
        }
    }
    std::vector<StepTime> medians;
    for (size_t i = 0; i < whole.size(); ++i) medians.push_back({whole[i].id, median(times[i])});
    comm_.activity().enter("host code between operations");
    return medians;
}

}  // namespace convoy
