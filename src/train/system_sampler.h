// Watches this rank's device from a thread of its own: /system of the metrics.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "train/metrics_rows.h"

namespace convoy {

class SystemSampler {
public:
    /// How often is looked, and how many samples a row is the mean of: each of the first samples is
    /// a row of its own, so that a short run has rows and a long one has not too many.
    struct Pace {
        double every = 1;  ///< seconds
        int single = 60;   ///< samples at first
        int samples_a_row = 10;
    };
    /// Calls `sample` on its own thread.
    SystemSampler(int rank, std::function<SystemSample()> sample, Pace);
    SystemSampler(int rank, std::function<SystemSample()> sample) : SystemSampler(rank, std::move(sample), Pace()) {}
    ~SystemSampler();
    SystemSampler(const SystemSampler&) = delete;
    SystemSampler& operator=(const SystemSampler&) = delete;
    /// The rows that are complete and were not taken before.
    std::vector<SystemRow> take();

private:
    void watch();

    const int rank_;
    const std::function<SystemSample()> sample_;
    const Pace pace_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::vector<SystemRow> rows_;
    std::thread thread_;  // last: it uses the others
};

}  // namespace convoy
