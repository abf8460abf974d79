// The memory of a device, which holds the tensors of programs.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/memory_budget.h"
#include "base/tensor.h"

namespace convoy {

/// A block of device memory, zeroed when allocated; its holders share ownership.
using Buffer = std::shared_ptr<void>;

class TensorMemory {
public:
    /// Throws Exit::out_of_memory. Steps allocate nothing, except when a feed must grow.
    virtual Buffer allocate(size_t bytes) = 0;
    /// Like allocate(), but returns memory in which all-reduces are fastest.
    virtual Buffer allocate_reduced(size_t bytes) { return allocate(bytes); }
    /// Allocates memory that steps write and the host reads at the same address. The host reads it
    /// after a TapeRunner::mark(), while later steps run.
    virtual Buffer allocate_shared(size_t bytes) { return allocate(bytes); }
    /// Returns host memory as the device sees it: the same memory on CPUs, a copy on a GPU. The
    /// host memory must outlive the Buffer.
    virtual Buffer resident(void* host, size_t bytes) = 0;
    /// Returns host memory that the device reads in place while steps run, so it takes no device
    /// memory. The same as resident() where the device's memory is the host's. The host memory must
    /// outlive the Buffer.
    virtual Buffer mapped(void* host, size_t bytes) { return resident(host, bytes); }
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void download(void* to, const void* from, size_t bytes) = 0;

    /// Returns the backend's own part of a checkpoint as floats on the device. That is the loss
    /// scale in f16; otherwise it is empty.
    virtual Tensor kept_state() { return {nullptr, {0, 1, 1, 0}, DType::f32}; }

    /// Returns the bytes in use. On CPUs it is this process's peak so far, including the data set.
    /// On GPUs it is what is in use on the device now.
    virtual size_t memory_taken() const = 0;
    /// Returns the bytes that are free on a GPU now. Returns nothing on CPUs, which have a
    /// MemoryBudget.
    virtual std::optional<size_t> device_memory_free() const { return std::nullopt; }
    /// Reserves host memory for other things than tensors; `what_for` names them in messages.
    /// Throws Exit::out_of_memory. Does nothing on GPUs, whose tensors are not in host memory.
    virtual void set_aside(size_t /*bytes*/, const std::string& /*what_for*/, MemoryOwner) {}

protected:
    ~TensorMemory() = default;
};

}  // namespace convoy
