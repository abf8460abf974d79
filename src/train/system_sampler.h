// Watches this rank's device from a thread of its own: /system of the metrics.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "train/metrics_rows.h"

namespace convoy {

class SystemSampler {
public:
    /// Calls `sample` on its own thread every `every` seconds; a row is the mean of
    /// `samples_a_row`.
    SystemSampler(int rank, std::function<SystemSample()> sample, double every = 1, int samples_a_row = 10);
    ~SystemSampler();
    SystemSampler(const SystemSampler&) = delete;
    SystemSampler& operator=(const SystemSampler&) = delete;
    /// The rows that are complete and were not taken before.
    std::vector<SystemRow> take();

private:
    void watch();

    const int rank_;
    const std::function<SystemSample()> sample_;
    const double every_;
    const int samples_a_row_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::vector<SystemRow> rows_;
    std::thread thread_;  // last: it uses the others
};

}  // namespace convoy
