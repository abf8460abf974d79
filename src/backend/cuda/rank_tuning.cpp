#include "backend/cuda/rank_tuning.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {
namespace {

constexpr double barrier_every = 2;  // seconds

}  // namespace

std::string text_of(const TunedDevices& devices) {
    std::string text;
    for (const auto& [device, tuned] : devices) text += "[" + device + "]\n" + text_of(tuned);
    return text;
}

TunedDevices parse_tuned_devices(const std::string& text) {
    std::map<std::string, std::string> sections;
    std::string device;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("[") && line.ends_with("]"))
            device = line.substr(1, line.size() - 2);
        else
            sections[device] += line + "\n";
    TunedDevices devices;
    for (const auto& [name, section] : sections) devices[name] = parse_tuned_plans(section);
    return devices;
}

double TuningBarrier::keep_alive() {
    if (seconds_since(last_) < barrier_every) return 0;
    const auto start = Clock::now();
    comm_.max(1);
    last_ = Clock::now();
    return seconds_since(start);
}

void TuningBarrier::finish() {
    while (comm_.max(0) > 0) {
    }
}

std::string CudaBackend::tuning() const {
    TunedDevices all = tuned_;
    for (const auto& [key, plan] : plans_.tuning()) all[facts_.kind][key] = plan;
    return text_of(all);
}

void CudaBackend::restore_tuning(const std::string& text) {
    tuned_ = parse_tuned_devices(text);
    if (const auto mine = tuned_.find(facts_.kind); mine != tuned_.end())
        plans_.take(mine->second, false);
    else if (!tuned_.empty())
        note("the plans of the checkpoint are of " + tuned_.begin()->first + "; for " + facts_.kind +
             " they are chosen again, so results may differ from earlier ones by rounding");
}

void CudaBackend::tune(const ProgramShape& program) {
    if (comm_.size() == 1) return;
    // The first rank of those with the same kind of device and batch measures for all of them. The
    // first rank with a kind of device writes the cache.
    const std::vector<std::string> kinds = comm_.gather_all(facts_.kind),
                                   works = comm_.gather_all(facts_.kind + ", batch " + std::to_string(program.batch));
    const auto is_first = [&](const std::vector<std::string>& all) {
        return std::find(all.begin(), all.end(), all[comm_.rank()]) - all.begin() == comm_.rank();
    };
    plans_.let_save(is_first(kinds));
    const bool measures = is_first(works);
    select_together(measures ? &program : nullptr);
    const std::vector<std::string> texts = comm_.gather_all(measures ? text_of(plans_.tuning()) : "");
    for (size_t rank = 0; rank < texts.size(); ++rank) {
        const TunedPlans chosen = parse_tuned_plans(texts[rank]);
        for (const auto& [key, plan] : chosen) tuned_[kinds[rank]][key] = plan;
        if (kinds[rank] == facts_.kind) plans_.take(chosen, true);
    }
    select_together(&program);
    share_notes();
}

void CudaBackend::share_notes() {
    for (const std::string& theirs : comm_.gather_all(std::exchange(unsaid_, ""))) {
        std::istringstream lines(theirs);
        for (std::string line; comm_.root() && std::getline(lines, line);) note(line);
    }
}

void CudaBackend::select_together(const ProgramShape* program) {
    TuningBarrier barrier(comm_);
    std::exception_ptr failure;
    if (program) try {
            barrier_ = &barrier;
            select(*program);
        } catch (...) {
            failure = std::current_exception();
        }
    barrier_ = nullptr;
    barrier.finish();
    comm_.together([&] {
        if (failure) std::rethrow_exception(failure);
    });
}

}  // namespace convoy::cuda
