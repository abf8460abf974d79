// What this rank is doing right now: written by the thread that trains, read by the watchdog.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace convoy {

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
    double seconds() const { return seconds_since(Clock::time_point(Clock::duration(since_.load(std::memory_order_relaxed)))); }

private:
    std::atomic<const char*> operation_{"start"};
    std::atomic<int64_t> step_{0}, since_{Clock::now().time_since_epoch().count()};
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

}  // namespace convoy
