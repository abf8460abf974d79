// CUDA's runtime, as far as Convoy calls it, for a device that is this process: its memory is the
// host's, and what is put on any stream is done when the host waits for it and no earlier, as late
// as a device may be; but in the order it was put there, whatever the stream, so that an order that
// nobody asked for between streams does not show. There are EMULATED_GPUS of them, one by default.
// A captured graph is a list of such work. While a capture runs, whatever would stop one on a GPU
// is an error. What lies between two events with timing is not done: it repeats what was done
// before, and time means nothing here.
#include "tests/emulated/cuda.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <utility>
#include <vector>

struct CUstream_st {};
struct CUevent_st {
    bool timing;
};
struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};

namespace {

constexpr size_t memory_bytes = size_t(16) << 30;

struct Device {
    std::deque<std::function<void()>> queue;
    cudaGraph_t capture = nullptr;
    bool between_timing_events = false;
    cudaError_t failed = cudaSuccess;  // for good, as on a GPU
    std::map<void*, size_t> memory;
    size_t taken = 0;

    cudaError_t drain() {
        while (!queue.empty() && failed == cudaSuccess) {
            const std::function<void()> work = std::move(queue.front());
            queue.pop_front();
            try {
                work();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "emulated GPU: %s\n", error.what());
                failed = cudaErrorLaunchFailure;
            }
        }
        return failed;
    }
    /// What the host waits for cannot be in a capture.
    cudaError_t wait() { return capture ? cudaErrorStreamCaptureUnsupported : drain(); }
};
Device device;

cudaError_t allocate(void** p, size_t bytes) {
    if (device.capture) return cudaErrorStreamCaptureUnsupported;
    if (device.taken + bytes > memory_bytes || posix_memalign(p, 256, bytes) != 0) return cudaErrorMemoryAllocation;
    std::memset(*p, 0xff, bytes);  // memory that is not written is NaN
    device.memory[*p] = bytes;
    device.taken += bytes;
    return cudaSuccess;
}
cudaError_t release(void* p) {
    if (!p) return cudaSuccess;
    const auto at = device.memory.find(p);
    if (at == device.memory.end() || device.capture) return cudaErrorInvalidValue;
    device.drain();
    device.taken -= at->second;
    device.memory.erase(at);
    std::free(p);
    return cudaSuccess;
}

}  // namespace

namespace convoy::test {

void put_on_stream(std::function<void()> work) {
    if (device.capture)
        device.capture->work.push_back(std::move(work));
    else if (!device.between_timing_events)
        device.queue.push_back(std::move(work));
}

}  // namespace convoy::test

extern "C" {

// newer than any
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION / 1000 * 1000 + 990, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
    const char* wanted = std::getenv("EMULATED_GPUS");
    return *count = wanted ? std::atoi(wanted) : 1, cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    return *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int index) {
    *p = {};
    p->uuid.bytes[15] = char(index);
    std::strcpy(p->name, "emulated GPU");
    p->major = 9;
    p->totalGlobalMem = memory_bytes;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int index) {
    return std::snprintf(id, size_t(size), "0000:%02x:00.0", unsigned(index)), cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = *greatest = 0, cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* available, size_t* all) {
    *available = memory_bytes - device.taken;
    *all = memory_bytes;
    return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t e) {
    switch (e) {
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
        case cudaErrorMemoryAllocation: return "out of memory";
        default: return "an error";
    }
}
cudaError_t cudaGetLastError() { return device.failed; }

cudaError_t cudaMalloc(void** p, size_t bytes) { return allocate(p, bytes); }
cudaError_t cudaFree(void* p) { return release(p); }
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) { return allocate(p, bytes); }
cudaError_t cudaFreeHost(void* p) { return release(p); }
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
    const cudaError_t e = device.wait();
    if (e == cudaSuccess) std::memset(p, value, bytes);
    return e;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t) {
    convoy::test::put_on_stream([=] { std::memset(p, value, bytes); });
    return device.failed;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    const cudaError_t e = device.wait();  // for the host's memory is pageable
    if (e == cudaSuccess) std::memcpy(to, from, bytes);
    return e;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) { return *s = new CUstream_st, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t s) { return delete s, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return device.wait(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return device.wait(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return device.failed; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
    return *e = new CUevent_st{flags == cudaEventDefault}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return delete e, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) {
    if (e->timing) device.between_timing_events = !device.between_timing_events;
    return device.failed;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return device.wait(); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    static unsigned draw = 1;  // of a fixed sequence, so that every choice between ways is made both ways
    draw = draw * 1664525 + 1013904223;
    return *milliseconds = 1 + float(draw >> 24) / 256, device.failed;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    if (device.capture) return cudaErrorStreamCaptureUnsupported;
    device.capture = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
    return *graph = std::exchange(device.capture, nullptr), cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    return *exec = new CUgraphExec_st{graph->work}, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    for (const auto& work : exec->work) convoy::test::put_on_stream(work);
    return device.failed;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    device.drain();
    return delete exec, cudaSuccess;
}

}  // extern "C"
