// A block of device memory that all operations of one stream use in turn. It grows while tapes are
// built, so launches look up its address when they run. After it has moved, graphs are captured
// again.
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

    /// Returns a part behind the first `used` bytes of the same operation, and makes room for it.
    Part part(size_t used, size_t bytes) {
        const Part p{(used + alignment - 1) / alignment * alignment, bytes};
        if (p.end() > bytes_) {
            bytes_ = p.end();
            block_.reset();
            ++generation_;
        }
        return p;
    }
    /// Allocates the block if it grew. Call it before a program runs, because launches may be
    /// captured and must not allocate.
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
    /// Changes when the address does.
    int generation() const { return generation_; }

private:
    std::optional<DeviceMemory> block_;
    size_t bytes_ = 0;
    int generation_ = 0;
};

}  // namespace convoy::cuda
