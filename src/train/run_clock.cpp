#include "train/run_clock.h"

namespace convoy {

RunClock::RunClock(const TrainSetup& setup, Requests& requests, bool root, bool synchronous)
    : setup_(setup), requests_(requests), root_(root), synchronous_(synchronous) {}

bool RunClock::checkpoint_step(int64_t step) const {
    return setup_.checkpoint_steps > 0 && step % setup_.checkpoint_steps == 0;
}

bool RunClock::checkpoint_due(int64_t step, int64_t epoch) const {
    return requests_.checkpoint.load() > 0 || checkpoint_step(step) ||
           (setup_.checkpoint_epochs > 0 && (epoch + 1) % setup_.checkpoint_epochs == 0);
}

RunClock::Requested RunClock::take_in(const std::vector<StepRecord>& records, int64_t step) {
    Requested requested{.checkpoint = checkpoint_step(step)};
    for (const StepRecord& r : records) {
        stopped_ = stopped_ || r.stop;
        requested.checkpoint = requested.checkpoint || r.checkpoint;
        requested.skipped = requested.skipped || r.skipped;
        requested.snapshot = r.snapshot;  // the newest record counts
    }
    return requested;
}

void RunClock::watch(double margin) {
    if (!root_) return;
    if (setup_.checkpoint_seconds > 0 && seconds_since(checkpointed_) >= setup_.checkpoint_seconds)
        requests_.checkpoint = 1;
    constexpr double to_write = 5;  // seconds for the last checkpoint
    if (setup_.deadline && -seconds_since(*setup_.deadline) <= margin + to_write) requests_.stop = 1;
}

bool RunClock::watch_length(double seconds) {
    if (!root_) return false;
    constexpr double soon = 0.25, between_copies = 5;  // seconds
    const bool costs_little = synchronous_ || seconds_since(snapshot_at_) >= between_copies;
    requests_.snapshot = seconds >= soon && costs_little;
    return seconds < soon;
}

bool RunClock::begin_checkpoint(int64_t step, bool evaluation_due) {
    checkpointed_ = Clock::now();
    requests_.checkpoint = 0;
    if (saved_step_ == step && saved_due_ == evaluation_due && !stopped_) return false;
    set_saved(step, evaluation_due);
    return true;
}

void RunClock::set_saved(int64_t step, bool evaluation_due) {
    saved_step_ = step;
    saved_due_ = evaluation_due;
}

}  // namespace convoy
