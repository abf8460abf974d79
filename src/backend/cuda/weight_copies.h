// Copies of convolution and linear weights as tensor cores take them: low precision, channels
// padded with zeros. The update writes them too; after an upload to the masters, they are refreshed
// before the next program runs.
#pragma once
#include <vector>

#include "backend/backend.h"
#include "backend/gpu/plan_spec.h"
#include "kernels/kernels.h"

namespace convoy::cuda {

class WeightCopies {
public:
    /// The copy of a master weight, made when it is first asked for.
    void* of(Backend&, const Tensor& master, const CopyShape&);
    /// The host wrote these bytes.
    void touched(const void* to, size_t bytes);
    /// Brings stale copies up to date.
    void refresh(cudaStream_t);
    /// An update's segments, cut where copies begin and end.
    std::vector<kernels::Segment> segments(const float* weights, const std::vector<UpdateSegment>&) const;

private:
    struct Copy {
        const float* master;
        CopyShape shape;
        Buffer buffer;
        bool stale = true;
        size_t count() const { return size_t(shape.rows) * size_t(shape.channels); }
    };
    std::vector<Copy> copies_;  // by rising address of the master
};

}  // namespace convoy::cuda
