// The current activity of this rank. The training thread writes it; the watchdog and the progress
// display read it from other threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace convoy {

/// A phase of the work that a user waits for, and its progress.
struct Progress {
    const char* phase = "start";             ///< a string literal
    const char* unit = "";                   ///< unit of the counts: "step"
    int64_t first = 0, done = 0, total = 0;  ///< first: `done` when the phase began; total 0: no count
    Clock::time_point since = Clock::now();
    bool rated = false;  ///< true: show units per second
};

class Activity {
public:
    /// Sets the current operation. `operation` must live until the next call, or until the process
    /// ends.
    void enter(const char* operation) {
        operation_.store(operation, std::memory_order_relaxed);
        since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    }
    void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }

    const char* operation() const { return operation_.load(std::memory_order_relaxed); }
    int64_t step() const { return step_.load(std::memory_order_relaxed); }  ///< optimizer steps done
    double seconds() const {
        return seconds_since(Clock::time_point(Clock::duration(since_.load(std::memory_order_relaxed))));
    }

    Progress progress() const {
        const std::lock_guard lock(mutex_);
        return progress_;
    }
    /// Sets the current phase and returns the previous one.
    Progress set_progress(const Progress& progress) {
        const std::lock_guard lock(mutex_);
        return std::exchange(progress_, progress);
    }
    /// Sets the progress of the current phase.
    void advance(int64_t done) {
        const std::lock_guard lock(mutex_);
        progress_.done = done;
    }

private:
    std::atomic<const char*> operation_{"start"};
    std::atomic<int64_t> step_{0}, since_{Clock::now().time_since_epoch().count()};
    mutable std::mutex mutex_;
    Progress progress_;
};

/// Marks an operation of the host, from here to the end of the block.
class Doing {
public:
    Doing(Activity& activity, const char* operation) : activity_(activity) { activity.enter(operation); }
    ~Doing() { activity_.enter("host code between operations"); }
    Doing(const Doing&) = delete;

private:
    Activity& activity_;
};

/// Marks a phase, from here to the end of the block. Afterwards the enclosing phase continues.
class Phase {
public:
    Phase(Activity& activity, const char* name, const char* unit = "", int64_t first = 0, int64_t total = 0,
          bool rated = false)
        : activity_(activity), around_(activity.set_progress({name, unit, first, first, total, Clock::now(), rated})) {}
    ~Phase() { activity_.set_progress(around_); }
    Phase(const Phase&) = delete;

private:
    Activity& activity_;
    Progress around_;
};

}  // namespace convoy
