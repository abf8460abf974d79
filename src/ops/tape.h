// A tape is a list of launches: kernels, library calls and loops. It holds one program or more, or
// the end of a step. A launch is identified by its op and phase; its name is only for people.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// The work of a launch: for an op (the first six values), or for the program around the ops.
enum class LaunchPhase : uint8_t {
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

/// The resource that a launch occupies. Communication overlaps with compute until a launch waits
/// for it.
enum class Resource : uint8_t { compute, communication };

struct LaunchId {
    int op = -1;  ///< index in Graph::ops; -1: belongs to the whole program
    LaunchPhase phase = LaunchPhase::other;
    std::string name{};  ///< "conv forward stage1.block0.conv1": for timelines, profiles and errors
    int fused_op = -1;   ///< index of a second op that the same launch computes; -1: none
};

/// Builds the identity of a launch of op `op`, or of the whole program.
inline LaunchId named_launch(LaunchPhase phase, const std::string& name, int op = -1) {
    LaunchId id;
    id.op = op;
    id.phase = phase;
    id.name = name;
    return id;
}

struct Launch {
    LaunchId id;
    Resource resource;
    std::function<void()> run;
};
/// Launches in the order in which they run. A tape only grows; launches on it never change.
class Tape {
public:
    Tape() = default;
    Tape(std::initializer_list<Launch> launches) : launches_(launches) {}
    void push_back(Launch launch) { launches_.push_back(std::move(launch)); }
    void append(const Tape& more) { launches_.insert(launches_.end(), more.launches_.begin(), more.launches_.end()); }
    size_t size() const { return launches_.size(); }
    bool empty() const { return launches_.empty(); }
    const Launch& operator[](size_t i) const { return launches_[i]; }
    const Launch& back() const { return launches_.back(); }
    auto begin() const { return launches_.begin(); }
    auto end() const { return launches_.end(); }

private:
    std::vector<Launch> launches_;
};

/// The time in which a launch ran, on a steady clock. A span of communication lasts from the start
/// of an all-reduce until its completion was noticed.
struct Span {
    LaunchId id;
    Resource resource;
    double begin, end;  ///< seconds
};

}  // namespace convoy
