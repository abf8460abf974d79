// Allocates memory on the device, and copies to and from it.
#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "base/text.h"

namespace convoy::cuda {

size_t CudaBackend::memory_taken() const {
    size_t available = 0, all = 0;
    check(cudaMemGetInfo(&available, &all), "asking for its memory");
    return all - available;
}

std::optional<size_t> CudaBackend::device_memory_free() const {
    size_t available = 0, all = 0;
    check(cudaMemGetInfo(&available, &all), "asking for its memory");
    return available;
}

Buffer CudaBackend::allocate(size_t bytes) {
    bytes = std::max<size_t>(bytes, 1);
    void* p = nullptr;
    if (const cudaError_t e = cudaMalloc(&p, bytes); e == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        size_t available = 0, all = 0;
        cudaMemGetInfo(&available, &all);
        fail(Exit::out_of_memory, "out of memory: cannot allocate " + std::to_string(bytes >> 20) +
                                      " MiB on the GPU of rank " + std::to_string(comm_.rank()) + " on " +
                                      comm_.host() + ", which has " + std::to_string(available >> 20) +
                                      " MiB free; use a smaller batch");
    } else {
        check(e, "allocating memory");
    }
    const auto release = [copies = std::weak_ptr(copies_), bytes](void* q) {
        if (const auto living = copies.lock()) living->forget(q, bytes);
        cudaFree(q);
    };
    return cleared(Buffer(p, release), bytes);
}

Buffer CudaBackend::allocate_reduced(size_t bytes) {
    // small blocks would waste memory, because NCCL allocates in units of megabytes
    Buffer buffer = all_reduce_ && bytes >= size_t(2) << 20 ? all_reduce_->allocate(bytes) : nullptr;
    return buffer ? cleared(std::move(buffer), bytes) : allocate(bytes);
}

Buffer CudaBackend::cleared(Buffer buffer, size_t bytes) {
    check(cudaMemsetAsync(buffer.get(), 0, bytes, compute_.get()), "clearing memory");
    synchronize();
    return buffer;
}

Buffer CudaBackend::resident(void* host, size_t bytes) {
    Buffer copy = allocate(bytes);
    upload(copy.get(), host, bytes);
    return copy;
}

// Registered memory has the same address on the device as on the host, because all supported
// devices have unified addressing.
Buffer CudaBackend::mapped(void* host, size_t bytes) {
    if (const cudaError_t error = cudaHostRegister(host, bytes, cudaHostRegisterMapped); error != cudaSuccess)
        fail(Exit::out_of_memory, formatted("%.1f GiB of host memory cannot be made readable for the GPU (%s); use "
                                            "--data-placement replicate, or a node with more memory",
                                            double(bytes) / (1 << 30), cudaGetErrorString(error)));
    void* seen = nullptr;
    check(cudaHostGetDevicePointer(&seen, host, 0), "finding host memory on the device");
    return {seen, [host](void*) { cudaHostUnregister(host); }};
}

Buffer CudaBackend::allocate_shared(size_t bytes) {
    try {
        const auto memory = std::make_shared<PinnedMemory>(bytes);
        return {memory, memory->get()};
    } catch (const std::bad_alloc&) {
        fail(Exit::out_of_memory, "out of memory: cannot pin " + std::to_string(bytes) + " bytes of the host");
    }
}

void CudaBackend::upload(void* to, const void* from, size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, compute_.get()), "copying to the device");
    synchronize();
    copies_->touched(to, bytes);
}

void CudaBackend::download(void* to, const void* from, size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute_.get()), "copying from the device");
    synchronize();
}

}  // namespace convoy::cuda
