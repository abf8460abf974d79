// A model trained for a few steps on made-up bytes, as the trainer does it: gather, forward,
// backward, update, record. Runs on any backend in any precision, because nothing but bytes goes in
// and nothing but f32 comes out.
#pragma once
#include "tests/ops/op_harness.h"
#include "train/program.h"
#include "train/state.h"

namespace convoy::test {

class StepRunner {
public:
    /// `graph` is fused and in the backend's precision.
    StepRunner(Backend&, const Graph& graph, int batch, OptimizerSpec = {}, float learning_rate = 0.05f,
               uint64_t seed = 5);

    /// One step; the weights are those before it only after the first, so gradients are compared
    /// there.
    StepRecord step();
    Floats weights() const { return get(state_.weights()); }
    Floats running() const { return get(state_.running()); }
    Floats gradients() const { return get(state_.gradient_slice(0, state_.end_of_arena())); }
    Floats gradient(ParamId id) const { return get(state_.gradients()[size_t(id)]); }
    Floats logits() const { return get(logits_); }
    /// Operations whose output is not written.
    int unwritten() const { return unwritten_; }
    const State& state() const { return state_; }
    /// How the operations of a step run.
    const Ways& ways() const { return *ways_; }

private:
    Floats get(const Tensor& t) const { return download<float>(backend_, t.data, t.count()); }

    static constexpr int steps = 64, ring_size = 4;
    Backend& backend_;
    State state_;
    Buffer images_, labels_, arena_, counters_, rates_, ring_;
    Tensor logits_;
    std::function<void()> run_;
    int64_t done_ = 0;
    int unwritten_ = 0;
    std::shared_ptr<const Ways> ways_;
};

}  // namespace convoy::test
