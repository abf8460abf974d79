// What this rank is doing right now: written by the thread that trains, read by the watchdog and by
// what shows progress.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace convoy {

/// A part of the work that people wait for, and how far it is.
struct Progress {
    const char* phase = "start";             ///< a literal
    const char* unit = "";                   ///< of what is counted: "step"
    int64_t first = 0, done = 0, total = 0;  ///< first: done when the phase began; total 0: nothing is counted
    Clock::time_point since = Clock::now();
    bool rated = false;  ///< show how many a second
};

class Activity {
public:
    /// `operation` must live as long as the process or the next call.
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
    /// Returns what was there before.
    Progress set_progress(const Progress& progress) {
        const std::lock_guard lock(mutex_);
        return std::exchange(progress_, progress);
    }
    /// The current phase has done so much.
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

/// An operation of the host, from here to the end of the block.
class Doing {
public:
    Doing(Activity& activity, const char* operation) : activity_(activity) { activity.enter(operation); }
    ~Doing() { activity_.enter("host code between operations"); }
    Doing(const Doing&) = delete;

private:
    Activity& activity_;
};

/// A phase, from here to the end of the block; then the one around it goes on.
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
