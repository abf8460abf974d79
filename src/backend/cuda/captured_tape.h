// Runs a tape as one CUDA graph. The first run is eager, because it loads kernels and initialises
// libraries. The second run captures the graph, and later runs replay it.
#pragma once
#include "backend/backend.h"
#include "backend/cuda/handles.h"

namespace convoy::cuda {

/// A range on the timeline of Nsight Systems, from here to the end of the block. It costs nothing
/// without a profiler.
class Range {
public:
    explicit Range(const char* name);
    ~Range();
    Range(const Range&) = delete;
};

enum class RunMode { eager, capture, replay };

/// Returns the mode of the next run. `runs`: number of runs so far. `moved`: true if addresses have
/// changed since the capture.
constexpr RunMode next_mode(int64_t runs, bool may_capture, bool captured, bool moved) {
    if (!may_capture || runs == 0) return RunMode::eager;
    return captured && !moved ? RunMode::replay : RunMode::capture;
}

/// Captures what `work` puts on the stream as an executable graph.
ExecutableGraph capture(cudaStream_t, const std::function<void()>& work);

class CapturedTape {
public:
    CapturedTape(Tape tape, cudaStream_t stream, bool may_capture)
        : tape_(std::move(tape)), stream_(stream), may_capture_(may_capture) {}
    /// Runs the tape. `generation` identifies the addresses of workspaces, which launches look up
    /// when they run. If it changes, the tape is captured again.
    void run(int generation);

private:
    void launch_all() const;

    const Tape tape_;
    const cudaStream_t stream_;
    const bool may_capture_;
    int64_t runs_ = 0;
    int generation_ = 0;  // as of the capture
    ExecutableGraph graph_;
};

}  // namespace convoy::cuda
