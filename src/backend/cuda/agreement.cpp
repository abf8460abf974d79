#include "backend/cuda/agreement.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {
namespace {

constexpr double meet_every = 2;  // seconds

}  // namespace

std::string text_of(const DeviceChoices& devices) {
    std::string text;
    for (const auto& [device, choices] : devices) text += "[" + device + "]\n" + text_of(choices);
    return text;
}

DeviceChoices parse_device_choices(const std::string& text) {
    std::map<std::string, std::string> sections;
    std::string device;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("[") && line.ends_with("]"))
            device = line.substr(1, line.size() - 2);
        else
            sections[device] += line + "\n";
    DeviceChoices devices;
    for (const auto& [name, section] : sections) devices[name] = parse_choices(section);
    return devices;
}

double Meetings::attend() {
    if (seconds_since(last_) < meet_every) return 0;
    const auto start = Clock::now();
    comm_.max(1);
    last_ = Clock::now();
    return seconds_since(start);
}

void Meetings::conclude() {
    while (comm_.max(0) > 0) {
    }
}

std::string CudaBackend::choices() const {
    DeviceChoices all = agreed_;
    for (const auto& [key, choice] : plans_.choices()) all[facts_.kind][key] = choice;
    return text_of(all);
}

void CudaBackend::take_choices(const std::string& text) {
    agreed_ = parse_device_choices(text);
    if (const auto mine = agreed_.find(facts_.kind); mine != agreed_.end())
        plans_.take(mine->second, false);
    else if (!agreed_.empty())
        note("the plans of the checkpoint are of " + agreed_.begin()->first + "; for " + facts_.kind +
             " they are chosen again, so that results agree with those before within rounding");
}

void CudaBackend::agree(const Outline& outline) {
    if (comm_.size() == 1) return;
    // The first rank with a kind of device and a batch measures for all such ranks. The first rank
    // with a kind of device writes the cache.
    const std::vector<std::string> kinds = comm_.gather_all(facts_.kind),
                                   works = comm_.gather_all(facts_.kind + ", batch " + std::to_string(outline.batch));
    const auto is_first = [&](const std::vector<std::string>& all) {
        return std::find(all.begin(), all.end(), all[size_t(comm_.rank())]) - all.begin() == comm_.rank();
    };
    plans_.let_save(is_first(kinds));
    const bool measures = is_first(works);
    together_deciding(measures ? &outline : nullptr);
    const std::vector<std::string> texts = comm_.gather_all(measures ? text_of(plans_.choices()) : "");
    for (size_t rank = 0; rank < texts.size(); ++rank) {
        const PlanChoices chosen = parse_choices(texts[rank]);
        for (const auto& [key, choice] : chosen) agreed_[kinds[rank]][key] = choice;
        if (kinds[rank] == facts_.kind) plans_.take(chosen, true);
    }
    together_deciding(&outline);
    share_notes();
}

void CudaBackend::share_notes() {
    for (const std::string& theirs : comm_.gather_all(std::exchange(unsaid_, ""))) {
        std::istringstream lines(theirs);
        for (std::string line; comm_.root() && std::getline(lines, line);) note(line);
    }
}

void CudaBackend::together_deciding(const Outline* outline) {
    Meetings meetings(comm_);
    std::exception_ptr failure;
    if (outline) try {
            meetings_ = &meetings;
            decide(*outline);
        } catch (...) {
            failure = std::current_exception();
        }
    meetings_ = nullptr;
    meetings.conclude();
    comm_.together([&] {
        if (failure) std::rethrow_exception(failure);
    });
}

}  // namespace convoy::cuda
