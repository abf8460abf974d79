// A tape is a list of steps, the launches and calls that make up a program. A step is identified by
// its op in the graph and its phase; its name is only for people.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// The work of a step: for an op (the first six values), or for the program around the ops.
enum class StepPhase : uint8_t {
    forward,
    bias,  ///< adds the bias after a forward GEMM or convolution
    gradient,
    data_gradient,
    weight_gradient,
    bias_gradient,
    gather,
    zero,
    conversion,  ///< converts finished gradients from low precision to f32
    requests,
    all_reduce,  ///< starts an all-reduce, or waits for it
    progress,    ///< drives all-reduces that are in flight
    optimizer,
    look_ahead,
    record,
    totals,
    other
};

/// The resource that a step occupies. Communication overlaps with compute until a step waits for
/// it.
enum class Lane : uint8_t { compute, communication };

struct StepId {
    int op = -1;  ///< index in Graph::ops; -1: belongs to the whole program
    StepPhase phase = StepPhase::other;
    std::string name{};  ///< "conv forward stage1.block0.conv1": for timelines, profiles and errors
    int fused_op = -1;   ///< index of a second op that the same step computes; -1: none
};

/// Builds the identity of a step of op `op`, or of the whole program.
inline StepId named_step(StepPhase phase, const std::string& name, int op = -1) {
    StepId id;
    id.op = op;
    id.phase = phase;
    id.name = name;
    return id;
}

struct Step {
    StepId id;
    Lane lane;
    std::function<void()> run;
};
/// Steps in the order in which they run. A tape only grows; steps on it never change.
class Tape {
public:
    Tape() = default;
    Tape(std::initializer_list<Step> steps) : steps_(steps) {}
    void push_back(Step step) { steps_.push_back(std::move(step)); }
    void append(const Tape& more) { steps_.insert(steps_.end(), more.steps_.begin(), more.steps_.end()); }
    size_t size() const { return steps_.size(); }
    bool empty() const { return steps_.empty(); }
    const Step& operator[](size_t i) const { return steps_[i]; }
    const Step& back() const { return steps_.back(); }
    auto begin() const { return steps_.begin(); }
    auto end() const { return steps_.end(); }

private:
    std::vector<Step> steps_;
};

/// When something in a step ran, on a steady clock. On the communication lane it is an all-reduce,
/// from its start until its completion was noticed.
struct Span {
    StepId id;
    Lane lane;
    double begin, end;  ///< seconds
};

}  // namespace convoy
