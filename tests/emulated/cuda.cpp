// The part of CUDA's runtime that Convoy calls, for a device that is this process: its memory is
// the host's. Each stream has a separate queue. Work is done only when the host waits for it, in
// any order that streams, events and a graph's edges allow (EMULATED_ORDER, order.h). The legacy
// default stream and non-blocking streams do not wait for each other. There are EMULATED_GPUS of
// such devices; default 1. A graph launched right after an event with timing is not run: it repeats
// earlier work, and times are meaningless here.
#include "tests/emulated/cuda.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "tests/emulated/capture.h"
#include "tests/emulated/memory.h"

namespace {

using convoy::test::Captures;
using convoy::test::claimed_capability;
using convoy::test::Memory;
using convoy::test::Node;
using convoy::test::Pending;
using convoy::test::Work;

constexpr int greatest_priority = -5;

class Device {
public:
    cudaError_t wait_for(Pending::Id id) {
        return attempt([&] { pending_.finish(id); });
    }
    cudaError_t wait_for_all() {
        return attempt([&] { pending_.finish_all(); });
    }
    /// Returns the stream; null is the legacy stream.
    CUstream_st& stream(cudaStream_t s) { return !s || s == cudaStreamLegacy ? legacy_ : *s; }
    bool is_legacy(const CUstream_st& s) const { return &s == &legacy_; }
    cudaError_t put(CUstream_st&, Work, Pending::Id after = 0);
    cudaError_t launch(CUgraphExec_st&, CUstream_st&);
    /// Waits for the end of a stream, for callers that wait for it or query it.
    cudaError_t reach(CUstream_st&);

    Pending& pending() { return pending_; }
    cudaError_t failed = cudaSuccess;  // permanent, as on a GPU
    std::set<cudaStream_t> blocking;
    std::set<void*> registered;  // host memory
    Memory memory;
    Captures captures;

private:
    template <class F> cudaError_t attempt(F work) {
        if (failed != cudaSuccess) return failed;
        try {
            work();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "emulated GPU: %s\n", error.what());
            failed = cudaErrorLaunchFailure;
            pending_.drop_all();
        }
        return failed;
    }
    std::vector<Pending::Id> predecessors(const CUstream_st&) const;

    CUstream_st legacy_;
    Pending pending_{convoy::test::parse_order(std::getenv("EMULATED_ORDER"))};
};
Device device;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

/// Returns a call's result, and keeps an error for cudaGetLastError().
cudaError_t said(cudaError_t e) {
    if (e != cudaSuccess) last_error = e;
    return e;
}

std::vector<Pending::Id> Device::predecessors(const CUstream_st& s) const {
    std::vector<Pending::Id> before = {s.last};
    if (is_legacy(s))
        for (cudaStream_t other : blocking) before.push_back(other->last);
    else if (s.blocking)
        before.push_back(legacy_.last);
    return before;
}

cudaError_t Device::put(CUstream_st& s, Work work, Pending::Id after) {
    if (failed != cudaSuccess) return failed;
    if (s.capture && s.capture->invalid) return cudaErrorStreamCaptureInvalidated;
    work.urgent = s.urgent;
    s.timed = false;
    if (s.capture) return s.capture->add(&s, std::move(work)), cudaSuccess;
    if (is_legacy(s))
        if (const cudaError_t e = captures.use_legacy(); e != cudaSuccess) return e;
    std::vector<Pending::Id> before = predecessors(s);
    before.push_back(after);
    s.last = pending_.put(std::move(work), before);
    return cudaSuccess;
}

cudaError_t Device::launch(CUgraphExec_st& graph, CUstream_st& s) {
    if (s.capture) return Captures::refuse(*s.capture, cudaErrorNotSupported);
    if (s.timed) return failed;
    if (const cudaError_t e = put(s, {[] {}}, graph.last); e != cudaSuccess) return e;
    std::vector<Pending::Id> ids;
    for (const Node& node : graph.nodes) {
        std::vector<Pending::Id> after = {s.last};
        for (const size_t before : node.after) after.push_back(ids[before]);
        const auto& [run, urgent, collective] = node.work;
        ids.push_back(pending_.put({run, graph.node_priorities ? urgent : s.urgent, collective}, after));
    }
    ids.push_back(s.last);
    s.last = graph.last = pending_.put({[] {}, s.urgent}, ids);
    return cudaSuccess;
}

cudaError_t Device::reach(CUstream_st& s) {
    if (s.capture) return Captures::refuse(*s.capture, cudaErrorStreamCaptureUnsupported);
    if (is_legacy(s))
        if (const cudaError_t e = captures.use_legacy(); e != cudaSuccess) return e;
    if (const cudaError_t e = captures.make_unsafe_call(); e != cudaSuccess) return e;
    cudaError_t e = cudaSuccess;
    for (const Pending::Id id : predecessors(s))
        if (e == cudaSuccess) e = wait_for(id);
    return e;
}

cudaError_t allocate(void** p, size_t bytes, Memory::Of of) {
    if (const cudaError_t e = device.captures.make_unsafe_call(); e != cudaSuccess) return e;
    *p = device.memory.allocate(bytes, of);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t release(void* p) {
    if (!p) return cudaSuccess;
    if (const cudaError_t e = device.captures.make_unsafe_call(); e != cudaSuccess) return e;
    const cudaError_t e = device.wait_for_all();
    return device.memory.release(p) ? e : cudaErrorInvalidValue;
}

}  // namespace

namespace convoy::test {

void put_on_stream(cudaStream_t s, std::function<void()> work, bool collective) {
    said(device.put(device.stream(s), {std::move(work), false, collective}));
}
cudaError_t make_unsafe_call() { return said(device.captures.make_unsafe_call()); }

}  // namespace convoy::test

extern "C" {

// newer than any driver
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION / 1000 * 1000 + 990, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
    const char* wanted = std::getenv("EMULATED_GPUS");
    return *count = wanted ? std::atoi(wanted) : 1, cudaSuccess;
}
cudaError_t cudaSetDevice(int index) { return current_device = index, cudaSuccess; }
cudaError_t cudaGetDevice(int* index) { return *index = current_device, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    const int claimed = claimed_capability();
    return *value = attribute == cudaDevAttrComputeCapabilityMajor ? claimed / 10 : claimed % 10, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int index) {
    *p = {};
    p->uuid.bytes[15] = char(index);
    std::strcpy(p->name, "emulated GPU");
    p->major = claimed_capability() / 10, p->minor = claimed_capability() % 10;
    p->totalGlobalMem = Memory::total;
    p->multiProcessorCount = 132;
    p->l2CacheSize = 64 << 10;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int index) {
    return std::snprintf(id, size_t(size), "0000:%02x:00.0", unsigned(index)), cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = greatest_priority;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* all) {
    *available = device.memory.available();
    *all = Memory::total;
    return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t e) {
    switch (e) {
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
        case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
        case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
        case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
        case cudaErrorMemoryAllocation: return "out of memory";
        default: return "an error";
    }
}
cudaError_t cudaGetLastError() {
    const cudaError_t e = std::exchange(last_error, cudaSuccess);
    return device.failed != cudaSuccess ? device.failed : e;
}

cudaError_t cudaMalloc(void** p, size_t bytes) { return said(allocate(p, bytes, Memory::Of::device)); }
cudaError_t cudaFree(void* p) { return said(release(p)); }
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) { return said(allocate(p, bytes, Memory::Of::host)); }
cudaError_t cudaFreeHost(void* p) { return said(release(p)); }
// Kernels run in this process, so they can access host memory once it is registered.
cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
    if (!p || bytes == 0) return said(cudaErrorInvalidValue);
    return said(device.registered.insert(p).second ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* p) {
    return said(device.registered.erase(p) > 0 ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** seen, void* p, unsigned) {
    *seen = p;
    return said(device.registered.count(p) > 0 ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t s) {
    return said(device.put(device.stream(s), {[=] { std::memset(p, value, bytes); }}));
}
// Reads or writes pageable host memory when the copy is done, because CUDA does not promise that
// the call itself does so. A capture refuses it, because staging may wait for the stream.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t s) {
    CUstream_st& stream = device.stream(s);
    if (stream.capture && !(device.memory.holds(to) && device.memory.holds(from)))
        return said(Captures::refuse(*stream.capture, cudaErrorStreamCaptureUnsupported));
    return said(device.put(stream, {[=] { std::memcpy(to, from, bytes); }}));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority) {
    *s = new CUstream_st{(flags & cudaStreamNonBlocking) == 0, priority < 0};
    if ((*s)->blocking) device.blocking.insert(*s);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    if (s->capture) Captures::refuse(*s->capture, cudaErrorStreamCaptureUnsupported);
    if (s->capture) s->capture->streams.erase(s);
    device.blocking.erase(s);
    return delete s, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return said(device.reach(device.stream(s))); }
cudaError_t cudaStreamQuery(cudaStream_t s) { return said(device.reach(device.stream(s))); }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    CUstream_st& stream = device.stream(s);
    if (!e->capture) {
        if (stream.capture && e->work) return said(Captures::refuse(*stream.capture, cudaErrorStreamCaptureIsolation));
        return said(device.put(stream, {[] {}}, e->work));
    }
    if (!e->capture->active) return said(cudaErrorCapturedEvent);
    if (e->capture->invalid) return said(cudaErrorStreamCaptureInvalidated);
    if (device.is_legacy(stream)) return said(Captures::refuse(*e->capture, cudaErrorStreamCaptureImplicit));
    if (stream.capture && stream.capture != e->capture) {
        Captures::refuse(*stream.capture, cudaErrorStreamCaptureMerge);
        return said(Captures::refuse(*e->capture, cudaErrorStreamCaptureMerge));
    }
    stream.capture = e->capture;
    stream.capture->streams.insert(&stream);
    stream.leaves.insert(stream.leaves.end(), e->leaves.begin(), e->leaves.end());
    return device.failed;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
    return *e = new CUevent_st{(flags & cudaEventDisableTiming) == 0}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return delete e, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    CUstream_st& stream = device.stream(s);
    e->capture = stream.capture;
    e->leaves = stream.leaves;
    if (stream.capture) return said(stream.capture->invalid ? cudaErrorStreamCaptureInvalidated : device.failed);
    const cudaError_t put = device.put(stream, {[] {}});
    e->work = stream.last;
    stream.timed = e->timing;
    return said(put);
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    if (e->capture) return said(Captures::refuse(*e->capture, cudaErrorCapturedEvent));
    if (const cudaError_t unsafe = device.captures.make_unsafe_call(); unsafe != cudaSuccess) return said(unsafe);
    return said(device.wait_for(e->work));
}
// The device reaches the event right after the first query.
cudaError_t cudaEventQuery(cudaEvent_t e) {
    const bool done = e->capture || device.pending().done(e->work);
    const cudaError_t waited = cudaEventSynchronize(e);
    return waited == cudaSuccess && !done ? cudaErrorNotReady : waited;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    static unsigned draw = 1;  // a fixed sequence, so that every choice between algorithms is made both ways
    if (!device.pending().done(from->work) || !device.pending().done(to->work)) return cudaErrorNotReady;
    draw = draw * 1664525 + 1013904223;
    return *milliseconds = 1 + float(draw >> 24) / 256, device.failed;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
    if (device.is_legacy(device.stream(s))) return said(cudaErrorStreamCaptureUnsupported);
    return said(device.captures.begin(s, mode));
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
    return said(device.captures.end(&device.stream(s), graph));
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    return *exec = new CUgraphExec_st{graph->nodes, flags == cudaGraphInstantiateFlagUseNodePriority}, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    return said(device.launch(*exec, device.stream(s)));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    device.wait_for_all();
    return delete exec, cudaSuccess;
}

}  // extern "C"
