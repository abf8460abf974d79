#include "train/system_sampler.h"

#include <chrono>
#include <utility>

namespace convoy {
namespace {

double seconds_since_1970() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

SystemSampler::SystemSampler(int rank, std::function<SystemSample()> sample, double every, int samples_a_row)
    : rank_(rank), sample_(std::move(sample)), every_(every), samples_a_row_(samples_a_row), thread_([this] {
          watch();
      }) {}

SystemSampler::~SystemSampler() {
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

std::vector<SystemRow> SystemSampler::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(rows_, {});
}

void SystemSampler::watch() {
    sample_();  // what was before does not count
    SystemSample sum;
    int samples = 0;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(every_), [this] { return done_; })) {
        lock.unlock();  // a driver may take its time
        const SystemSample now = sample_();
        sum = samples == 0 ? now
                           : SystemSample{sum.utilisation + now.utilisation, sum.memory_bytes + now.memory_bytes,
                                          sum.power_watts + now.power_watts, sum.clock_hz + now.clock_hz};
        ++samples;
        lock.lock();
        if (samples < samples_a_row_) continue;
        rows_.push_back(SystemRow{seconds_since_1970(), rank_, sum.utilisation / samples, sum.memory_bytes / samples,
                                  sum.power_watts / samples, sum.clock_hz / samples});
        samples = 0;
    }
}

}  // namespace convoy
