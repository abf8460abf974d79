// Times the algorithms of a convolution on this processor, on random data.
#pragma once
#include "backend/cpu/conv_algorithms.h"
#include "backend/cpu/conv_calls.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {

class ConvTrial {
public:
    /// Trials run on ConvSpec::threads threads of this process.
    ConvTrial(dnnl::engine, dnnl::stream, MemoryBudget&);
    ~ConvTrial();
    ConvTrial(const ConvTrial&) = delete;
    /// Returns the seconds of each candidate for about `flops` of work. A time is the shortest of
    /// two to twelve runs after a warm-up; a candidate that is far behind has only one. Returns
    /// nothing if there is only one candidate, or if memory is short.
    ConvTimes measure(const ConvSpec&, const Capabilities&, double flops);

private:
    std::function<void()> runnable(const ConvSpec&, const ConvCall&, ConvBy);
    /// Fills a tensor with random numbers from -1 to 1. Later tensors in `slot` reuse its memory.
    Tensor random(const Shape&, DType, size_t slot);

    dnnl::engine engine_;
    dnnl::stream stream_;
    MemoryBudget& budget_;
    std::shared_ptr<Temporary> temporary_;
    struct Slot {
        Buffer block{};
        size_t bytes = 0;
    } slots_[4];  // x, y, weight, bias
};

}  // namespace convoy::cpu
