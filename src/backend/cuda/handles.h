// Owners of CUDA handles and memory.
#pragma once
#include <cuda_runtime_api.h>

#include <cstring>
#include <new>
#include <utility>

#include "kernels/check.h"

namespace convoy::cuda {

using kernels::check;

/// Owns a handle and calls `destroy` on it in the end. Move-only.
template <class Handle, cudaError_t (*destroy)(Handle)> class Owned {
public:
    Owned() = default;
    explicit Owned(Handle handle) : handle_(handle) {}
    Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Owned() {
        if (handle_) destroy(handle_);
    }
    Handle get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }

private:
    Handle handle_ = nullptr;
};

struct Stream : Owned<cudaStream_t, cudaStreamDestroy> {
    /// Creates a stream that does not wait for the default stream. If thread blocks of several
    /// streams compete, those of high priority run first.
    explicit Stream(bool high_priority = false) : Owned(make(high_priority)) {}

private:
    static cudaStream_t make(bool high_priority) {
        int least = 0, greatest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "making a stream");
        cudaStream_t s = nullptr;
        check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, high_priority ? greatest : least),
              "making a stream");
        return s;
    }
};

struct Event : Owned<cudaEvent_t, cudaEventDestroy> {
    explicit Event(bool timing = false) : Owned(make(timing)) {}

private:
    static cudaEvent_t make(bool timing) {
        cudaEvent_t e = nullptr;
        check(cudaEventCreateWithFlags(&e, timing ? cudaEventDefault : cudaEventDisableTiming), "making an event");
        return e;
    }
};

/// Makes `later` wait for all work that `earlier` has so far.
inline void follow(cudaStream_t later, cudaStream_t earlier, const Event& event) {
    if (later == earlier) return;
    check(cudaEventRecord(event.get(), earlier), "ordering streams");
    check(cudaStreamWaitEvent(later, event.get(), 0), "ordering streams");
}

using CapturedGraph = Owned<cudaGraph_t, cudaGraphDestroy>;
using ExecutableGraph = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Zeroed device memory. Throws std::bad_alloc if there is not enough.
struct DeviceMemory : Owned<void*, cudaFree> {
    explicit DeviceMemory(size_t bytes) : Owned(make(bytes)) {}

private:
    static void* make(size_t bytes) {
        void* p = nullptr;
        if (const cudaError_t e = cudaMalloc(&p, bytes); e == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // clears the error, so that the next launch does not report it
            throw std::bad_alloc();
        } else {
            check(e, "allocating memory");
        }
        // cudaMemset runs on the default stream, for which our streams do not wait.
        check(cudaMemset(p, 0, bytes), "clearing memory");
        check(cudaStreamSynchronize(nullptr), "clearing memory");
        return p;
    }
};

/// Host memory that the device reads and writes at the same address; zeroed. Throws std::bad_alloc
/// if there is not enough.
struct PinnedMemory : Owned<void*, cudaFreeHost> {
    explicit PinnedMemory(size_t bytes) : Owned(make(bytes)) {}

private:
    static void* make(size_t bytes) {
        void* p = nullptr;
        if (const cudaError_t e = cudaHostAlloc(&p, bytes, cudaHostAllocMapped); e == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // clears the error, so that the next launch does not report it
            throw std::bad_alloc();
        } else {
            check(e, "allocating pinned memory");
        }
        std::memset(p, 0, bytes);
        return p;
    }
};

}  // namespace convoy::cuda
