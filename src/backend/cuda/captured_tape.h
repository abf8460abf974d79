// A tape as one CUDA graph. The first run is eager, because kernels are loaded and libraries set
// themselves up then; the second is captured, and replayed from then on.
#pragma once
#include "backend/backend.h"
#include "backend/cuda/handles.h"

namespace convoy::cuda {

/// A range on the timeline of Nsight Systems, from here to the end of the block; costs nothing
/// outside a profiler.
class Range {
public:
    explicit Range(const char* name);
    ~Range();
    Range(const Range&) = delete;
};

enum class RunMode { eager, capture, replay };

/// What the next run does. `runs` are those done so far, `moved` says that addresses have changed
/// since the capture.
constexpr RunMode next_mode(int64_t runs, bool may_capture, bool captured, bool moved) {
    if (!may_capture || runs == 0) return RunMode::eager;
    return captured && !moved ? RunMode::replay : RunMode::capture;
}

/// What `work` puts on the stream, as a graph.
ExecutableGraph capture(cudaStream_t, const std::function<void()>& work);

class CapturedTape {
public:
    CapturedTape(Tape tape, cudaStream_t stream, bool may_capture)
        : tape_(std::move(tape)), stream_(stream), may_capture_(may_capture) {}
    /// `generation` of the memory that steps look up when they run.
    void run(int generation);

private:
    void launch_steps() const;

    const Tape tape_;
    const cudaStream_t stream_;
    const bool may_capture_;
    int64_t runs_ = 0;
    int generation_ = 0;  // at the capture
    ExecutableGraph graph_;
};

}  // namespace convoy::cuda
