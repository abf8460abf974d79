// Assigns buffers to offsets in one arena: buffers whose lifetimes do not overlap may share memory.
// train/program.h has an example.
#pragma once
#include <cstddef>
#include <vector>

namespace convoy {

/// A buffer lives from event `first` to event `last`, both included. Events are numbered in
/// execution order.
struct Lifetime {
    size_t bytes;
    int first, last;
};

struct MemoryLayout {
    std::vector<size_t> offset;  ///< by buffer, multiples of 64 bytes
    size_t bytes = 0;            ///< size of the arena
};

/// Places buffers, the largest first, each at the lowest offset that is free during its whole life.
MemoryLayout lay_out_memory(const std::vector<Lifetime>&);

}  // namespace convoy
