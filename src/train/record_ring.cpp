#include "train/record_ring.h"

#include <algorithm>
#include <utility>

namespace convoy {

RecordRing::RecordRing(Backend& backend, int64_t interval)
    : runner_(backend),
      interval_(interval),
      size_(std::max<int64_t>(2 * interval, 16)),
      ring_(backend.allocate_shared(sizeof(StepRecord) * size_t(size_))) {}

void RecordRing::begin(int64_t steps) {
    read_ = marked_ = steps;
    reached_ = nullptr;
}

std::vector<StepRecord> RecordRing::look_once(int64_t launched, bool late) {
    const int64_t until = late ? marked_ : launched;
    const std::function<void()> reached = std::exchange(reached_, late ? runner_.mark() : nullptr);
    marked_ = launched;
    if (!late)
        runner_.synchronize();
    else if (reached)
        reached();
    std::vector<StepRecord> records;
    while (read_ < until) {
        records.push_back(data()[read_ % size_]);
        require(records.back().step == ++read_, "the metrics ring holds every step since it was read");
    }
    return records;
}

std::vector<StepRecord> RecordRing::look(int64_t launched, bool late) {
    std::vector<StepRecord> records = look_once(launched, late);
    const bool ask = std::any_of(records.begin(), records.end(),
                                 [](const StepRecord& r) { return r.stop || r.checkpoint || r.snapshot || r.skipped; });
    if (!ask || read_ == launched) return records;
    const std::vector<StepRecord> rest = look_once(launched, false);
    records.insert(records.end(), rest.begin(), rest.end());
    return records;
}

}  // namespace convoy
