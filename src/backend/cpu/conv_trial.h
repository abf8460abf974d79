// Measures the ways of a convolution on this processor, on random data.
#pragma once
#include "backend/cpu/conv_calls.h"
#include "backend/cpu/conv_ways.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {

class ConvTrial {
public:
    /// Threads are those of this process: as many as the specs say.
    ConvTrial(dnnl::engine, dnnl::stream, MemoryBudget&);
    ~ConvTrial();
    ConvTrial(const ConvTrial&) = delete;
    /// Seconds of each candidate with about so much work: the shortest of two to twelve runs after
    /// a first, of one if that is far behind. Empty if there is only one candidate, or memory is
    /// short.
    ConvTimes measure(const ConvSpec&, const Capabilities&, double flops);

private:
    std::function<void()> runnable(const ConvSpec&, const ConvCall&, ConvBy);
    /// Random numbers from -1 to 1 in memory that later tensors use again.
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
