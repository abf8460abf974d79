#include "backend/cuda/captured_tape.h"

#include <nvtx3/nvToolsExt.h>

namespace convoy::cuda {

Range::Range(const char* name) { nvtxRangePushA(name); }
Range::~Range() { nvtxRangePop(); }

void CapturedTape::run(int generation) {
    const Range range("step");
    const RunMode mode = next_mode(runs_++, may_capture_, bool(graph_), generation != generation_);
    if (mode == RunMode::eager) return launch_all();
    if (mode == RunMode::capture) {
        graph_ = capture(stream_, [this] { launch_all(); });
        generation_ = generation;
    }
    check(cudaGraphLaunch(graph_.get(), stream_), "launching a step");
}

void CapturedTape::launch_all() const {
    for (const Launch& launch : tape_) {
        const Range range(launch.id.name.c_str());
        launch.run();
    }
}

ExecutableGraph capture(cudaStream_t stream, const std::function<void()>& work) {
    // Relaxed mode, because NCCL launches from a separate thread.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing a step");
    cudaGraph_t captured = nullptr;
    try {
        work();
    } catch (...) {
        cudaStreamEndCapture(stream, &captured);
        if (captured) cudaGraphDestroy(captured);
        throw;
    }
    check(cudaStreamEndCapture(stream, &captured), "capturing a step");
    const CapturedGraph owner(captured);
    cudaGraphExec_t executable = nullptr;
    // Without this flag, all-reduces would get the priority of the stream that launches the graph.
    check(cudaGraphInstantiate(&executable, captured, cudaGraphInstantiateFlagUseNodePriority),
          "making a graph of a step");
    return ExecutableGraph(executable);
}

}  // namespace convoy::cuda
