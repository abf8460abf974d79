#include "backend/cuda/weight_copies.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace convoy::cuda {

void* WeightCopies::of(Backend& backend, const Tensor& master, const CopyShape& shape) {
    const float* data = master.as<float>();
    const auto at = std::lower_bound(copies_.begin(), copies_.end(), data,
                                     [](const Copy& c, const float* p) { return c.master < p; });
    if (at != copies_.end() && at->master == data) {
        require(at->shape == shape, "a weight has one shape");
        return at->buffer.get();
    }
    return copies_.insert(at, {data, shape, backend.allocate(shape.bytes())})->buffer.get();
}

void WeightCopies::touched(const void* to, size_t bytes) {
    const auto *begin = static_cast<const char*>(to), *end = begin + bytes;
    for (Copy& c : copies_) {
        const auto* first = reinterpret_cast<const char*>(c.master);
        c.stale = c.stale || (first < end && begin < first + c.count() * sizeof(float));
    }
}

void WeightCopies::forget(const void* memory, size_t bytes) {
    const auto *begin = static_cast<const char*>(memory), *end = begin + bytes;
    const auto gone = std::stable_partition(copies_.begin(), copies_.end(), [&](const Copy& c) {
        const auto* master = reinterpret_cast<const char*>(c.master);
        return master < begin || master >= end;
    });
    // Freeing a copy's buffer calls this function again.
    const std::vector<Copy> freed(std::make_move_iterator(gone), std::make_move_iterator(copies_.end()));
    copies_.erase(gone, copies_.end());
}

void WeightCopies::refresh(cudaStream_t stream) {
    for (Copy& c : copies_)
        if (std::exchange(c.stale, false))
            kernels::pad(c.master, c.shape.rows, c.shape.channels,
                         {c.buffer.get(),
                          {int(c.shape.stored_rows), 1, 1, c.shape.stored},
                          c.shape.type,
                          c.shape.stored - c.shape.channels},
                         stream);
}

std::vector<kernels::Segment> WeightCopies::segments(const float* weights,
                                                     const std::vector<UpdateSegment>& all) const {
    std::vector<kernels::Segment> cut;
    for (const UpdateSegment& s : all) {
        int64_t at = int64_t(s.begin);
        const auto plain = [&](int64_t end) {
            if (end == at) return;
            kernels::Segment segment{at, end, s.weight_decay, s.learning_rate, s.steps};
            segment.count = end - at;
            cut.push_back(segment);
            at = end;
        };
        for (const Copy& c : copies_) {
            const int64_t begin = c.master - weights;
            if (begin < int64_t(s.begin) || begin >= int64_t(s.end)) continue;
            plain(begin);
            plain(begin + int64_t(c.count() + stats_elements - 1) / stats_elements * stats_elements);
            kernels::Segment& mine = cut.back();
            mine.copy = c.buffer.get();
            mine.copy_type = c.shape.type;
            mine.count = int64_t(c.count());
            mine.channels = c.shape.channels;
            mine.stored = c.shape.stored;
        }
        plain(int64_t(s.end));
    }
    return cut;
}

}  // namespace convoy::cuda
