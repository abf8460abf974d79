// A model with its own training program and generated parameters, run step by step on any backend.
// Tests of golden values use it, and those that compare fused with unfused graphs.
#pragma once
#include <string>
#include <vector>

#include "tests/ops/op_harness.h"
#include "train/program.h"
#include "train/state.h"

namespace convoy::test {

/// Returns n floats in [-1, 1) from Philox, with the hash of `name` as key.
/// tests/golden/make_golden.py has the same function.
Floats stream(const std::string& name, size_t n);

struct TrainingRule {
    OptimizerSpec optimizer{};
    float learning_rate = 0, weight_decay = 0;
    int steps = 1;  ///< length of the learning-rate schedule
};

class ModelRunner {
public:
    /// Fills parameters with streams, scaled by their kind. Running statistics have their initial
    /// values. In f16 losses are scaled by 1024.
    ModelRunner(Backend&, const Graph&, int batch, const TrainingRule& = {});

    void set_batch(const Floats& input, const std::vector<int32_t>& labels);
    void forward_backward();
    void update();  ///< runs an optimizer step with the gradients of the last forward_backward

    double loss() const;  ///< mean loss of the batch in the last forward_backward
    Floats logits() const { return get(program_.logits); }
    Floats param(ParamId id) const { return get(state_.params()[id]); }
    Floats gradient(ParamId id) const;  ///< gradient of the loss, without the loss scale

private:
    void fill_params();
    Floats get(const Tensor& t) const { return download<float>(backend_, t.data, t.count()); }

    Backend& backend_;
    const Graph& graph_;
    int batch_;
    State state_;
    Buffer arena_, counters_, learning_rates_, ring_;
    Program program_;
    std::function<void()> forward_backward_, update_;
    Floats input_;
    float loss_scale_ = 1;
    std::vector<int32_t> labels_;
};

}  // namespace convoy::test
