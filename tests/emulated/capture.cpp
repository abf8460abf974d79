#include "tests/emulated/capture.h"

#include <algorithm>
#include <utility>

namespace convoy::test {

void Capture::add(cudaStream_t stream, Work work) {
    nodes.push_back({std::move(work), stream->leaves});
    stream->leaves = {nodes.size() - 1};
}

/// Returns true if the work of every stream comes before the end of the stream that began the
/// capture.
bool Capture::joined() const {
    std::vector<bool> before(nodes.size());
    std::vector<size_t> open = origin->leaves;
    while (!open.empty()) {
        const size_t node = open.back();
        open.pop_back();
        if (before[node]) continue;
        before[node] = true;
        open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
    }
    return std::all_of(streams.begin(), streams.end(), [&](cudaStream_t s) {
        return std::all_of(s->leaves.begin(), s->leaves.end(), [&](size_t node) { return before[node]; });
    });
}

cudaError_t Capture::end(cudaStream_t stream) {
    if (stream != origin) return Captures::refuse(*this, cudaErrorStreamCaptureUnmatched);
    if (mode != cudaStreamCaptureModeRelaxed && thread != std::this_thread::get_id())
        return Captures::refuse(*this, cudaErrorStreamCaptureWrongThread);
    const cudaError_t wrong = invalid     ? cudaErrorStreamCaptureInvalidated
                              : !joined() ? cudaErrorStreamCaptureUnjoined
                                          : cudaSuccess;
    active = false;
    for (cudaStream_t s : std::exchange(streams, {})) {  // the last stream may own this
        s->leaves.clear();
        const auto keep = std::exchange(s->capture, nullptr);
    }
    return wrong;
}

cudaError_t Captures::begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
    if (stream->capture) return refuse(*stream->capture, cudaErrorIllegalState);
    stream->capture = std::make_shared<Capture>();
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->origin = stream;
    stream->capture->streams = {stream};
    active_.push_back(stream->capture);
    return cudaSuccess;
}

cudaError_t Captures::end(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = nullptr;
    if (!stream->capture) return cudaErrorIllegalState;
    const std::shared_ptr<Capture> capture = stream->capture;
    const cudaError_t wrong = capture->end(stream);
    if (wrong == cudaSuccess) *graph = new CUgraph_st{std::move(capture->nodes)};
    std::erase_if(active_, [](const auto& c) { return !c->active; });
    return wrong;
}

cudaError_t Captures::refuse(Capture& capture, cudaError_t why) {
    capture.invalid = true;
    return why;
}

cudaError_t Captures::use_legacy() {
    for (const auto& capture : active_)
        if (std::any_of(capture->streams.begin(), capture->streams.end(), [](cudaStream_t s) { return s->blocking; }))
            return refuse(*capture, cudaErrorStreamCaptureImplicit);
    return cudaSuccess;
}

cudaError_t Captures::make_unsafe_call() {
    for (const auto& capture : active_)
        if (capture->mode == cudaStreamCaptureModeGlobal ||
            (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id()))
            return refuse(*capture, cudaErrorStreamCaptureUnsupported);
    return cudaSuccess;
}

}  // namespace convoy::test
