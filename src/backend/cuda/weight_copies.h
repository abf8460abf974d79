// Copies of convolution and linear weights for tensor cores: in low precision, with channels padded
// with zeros. The optimizer updates masters and copies together. After an upload to a master, its
// copies are refreshed before the next program runs.
#pragma once
#include <vector>

#include "backend/backend.h"
#include "backend/gpu/plan_spec.h"
#include "kernels/kernels.h"

namespace convoy::cuda {

class WeightCopies {
public:
    /// Returns the copy of a master weight; creates it on first use.
    void* of(Backend&, const Tensor& master, const CopyShape&);
    /// Marks the copies of these bytes as stale, after the host wrote to them.
    void touched(const void* to, size_t bytes);
    /// Removes the copies of masters in this memory, which is about to be freed.
    void forget(const void* memory, size_t bytes);
    /// Updates all stale copies.
    void refresh(cudaStream_t);
    /// Returns an update's segments, cut where copies begin and end.
    std::vector<kernels::Segment> segments(const float* weights, const std::vector<UpdateSegment>&) const;

private:
    struct Copy {
        const float* master;
        CopyShape shape;
        Buffer buffer;
        bool stale = true;
        size_t count() const { return size_t(shape.rows) * size_t(shape.channels); }
    };
    std::vector<Copy> copies_;  // sorted by address of the master
};

}  // namespace convoy::cuda
