// One block of device memory that every operation of one stream uses while it runs. It grows while
// tapes are built, so its address is looked up when a step runs, and a captured graph is captured
// anew after it moved.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>

#include "backend/cuda/handles.h"

namespace convoy::cuda {

class Workspace {
public:
    struct Part {
        size_t offset = 0, bytes = 0;
        size_t end() const { return offset + bytes; }
    };
    static constexpr size_t alignment = 256;

    /// A part after the first `used` bytes of the same operation; makes room for it.
    Part part(size_t used, size_t bytes) {
        const Part p{(used + alignment - 1) / alignment * alignment, bytes};
        if (p.end() > bytes_) {
            bytes_ = p.end();
            block_.reset();
            ++generation_;
        }
        return p;
    }
    /// Allocates if it grew; before a program runs, because steps may be in a capture.
    void settle() {
        if (block_) return;
        try {
            block_.emplace(std::max<size_t>(bytes_, 1));
        } catch (const std::bad_alloc&) {
            fail(Exit::out_of_memory, "out of memory: cannot allocate " + std::to_string(bytes_ >> 20) +
                                          " MiB of workspace on the GPU; use a smaller batch");
        }
    }
    void* at(const Part& p) {
        settle();
        return static_cast<char*>(block_->get()) + p.offset;
    }
    size_t bytes() const { return bytes_; }
    /// Changes when the address does.
    int generation() const { return generation_; }

private:
    std::optional<DeviceMemory> block_;
    size_t bytes_ = 0;
    int generation_ = 0;
};

}  // namespace convoy::cuda
