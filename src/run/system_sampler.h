// Samples this rank's device on a separate thread, for /system of the metrics.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "run/metrics_rows.h"

namespace convoy {

class SystemSampler {
public:
    /// The interval between samples, and the samples per row. Each of the first samples is one row,
    /// so that a short run has rows. Later rows are means, so that a long run does not have too
    /// many.
    struct Pace {
        double every = 1;        ///< seconds between samples
        int single = 60;         ///< number of first samples that are one row each
        int samples_a_row = 10;  ///< samples per later row
    };
    /// Starts the thread, which calls `sample`.
    SystemSampler(int rank, std::function<SystemSample()> sample, Pace);
    SystemSampler(int rank, std::function<SystemSample()> sample) : SystemSampler(rank, std::move(sample), Pace()) {}
    ~SystemSampler();
    SystemSampler(const SystemSampler&) = delete;
    SystemSampler& operator=(const SystemSampler&) = delete;
    /// Returns the complete rows since the last call.
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
    std::thread thread_;  // last, because it uses the others
};

}  // namespace convoy
