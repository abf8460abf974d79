// What programs are made of: steps on a tape. A step is identified by its op in the graph and its
// phase; its name is for people.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// What a step does: for an op (the first six), or for the program around the ops.
enum class StepPhase : uint8_t {
    forward,
    bias,  ///< adds the bias of a forward product
    gradient,
    data_gradient,
    weight_gradient,
    bias_gradient,
    gather,
    zero,
    requests,
    all_reduce,  ///< starts a sum over ranks, or waits for it
    progress,    ///< moves sums in flight on
    optimizer,
    look_ahead,
    record,
    totals,
    other
};

/// Where a step runs. Communication overlaps with compute until a step waits for it.
enum class Lane : uint8_t { compute, communication };

struct StepId {
    int op = -1;  ///< index in Graph::ops; -1: of the program
    StepPhase phase = StepPhase::other;
    std::string name{};  ///< "conv forward stage1.block0.conv1": for timelines, profiles and errors
    int fused_op = -1;   ///< index of a second op that the same step computes; -1: none
};

/// A step of op `op`, or of the program.
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
/// Steps in the order in which they run. It only grows: what is on it stays as it is.
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

/// When something in a step ran, on a steady clock. On the communication lane: a sum over ranks,
/// from its start until it was seen to be complete.
struct Span {
    StepId id;
    Lane lane;
    double begin, end;  ///< seconds
};

}  // namespace convoy
