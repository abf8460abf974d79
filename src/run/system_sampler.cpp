#include "run/system_sampler.h"

#include <chrono>
#include <utility>

namespace convoy {
namespace {

double seconds_since_1970() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Adds two samples field by field.
SystemSample sum_of(const SystemSample& a, const SystemSample& b) {
    return {.utilisation = a.utilisation + b.utilisation,
            .memory_bytes = a.memory_bytes + b.memory_bytes,
            .power_watts = a.power_watts + b.power_watts,
            .clock_hz = a.clock_hz + b.clock_hz,
            .temperature_celsius = a.temperature_celsius + b.temperature_celsius};
}

}  // namespace

SystemSampler::SystemSampler(int rank, std::function<SystemSample()> sample, Pace pace)
    : rank_(rank), sample_(std::move(sample)), pace_(pace), thread_([this] { watch(); }) {}

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
    sample_();  // starts the first interval; the use before it does not count
    SystemSample sum;
    int single = 0, samples = 0;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(pace_.every), [this] { return done_; })) {
        lock.unlock();  // a driver may be slow
        const SystemSample now = sample_();
        sum = samples == 0 ? now : sum_of(sum, now);
        ++samples;
        lock.lock();
        const bool alone = single < pace_.single;
        if (samples < pace_.samples_a_row && !alone) continue;
        single += alone;
        rows_.push_back({.time = seconds_since_1970(),
                         .rank = rank_,
                         .utilisation = sum.utilisation / samples,
                         .memory_bytes = sum.memory_bytes / samples,
                         .power_watts = sum.power_watts / samples,
                         .clock_hz = sum.clock_hz / samples,
                         .temperature_celsius = sum.temperature_celsius / samples});
        samples = 0;
    }
}

}  // namespace convoy
