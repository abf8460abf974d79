// Runs a CUDA grid on one thread of the host: block after block, each thread of a block a fiber
// that runs until it waits for others. Blocks and threads go in an order of the test's choice:
// without a barrier where one is needed, some order gives another result. Also an error: a barrier
// that not all threads reach or reach at different places, a shuffle among lanes that do not take
// part, launches beyond what any GPU allows.
#pragma once
#include <vector_types.h>

#include <cstdint>
#include <functional>
#include <source_location>

namespace convoy::test {

enum class Order { forward, reversed, shuffled };
/// Of all grids from now on.
void set_thread_order(Order);

/// Throws std::runtime_error that names the thread and the place.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

// For the thread that runs.
void wait_for_block(std::source_location);
void wait_for_warp(unsigned mask, std::source_location);
/// Every lane of the mask gives a value and takes that of lane `source`.
uint64_t exchange(unsigned mask, uint64_t value, int source, std::source_location);
int lane();
/// Of the block: as large as the launch said, on the heap, filled with 0xff (a NaN) when the block
/// begins.
void* shared_memory();
/// Bytes that this thread's grids read from tensors and wrote to them, in whole vectors. Parameters
/// and partial sums are not counted.
struct Traffic {
    uint64_t read = 0, written = 0;
};
Traffic& traffic();
/// Nanoseconds; a microsecond later at every call.
uint64_t device_time();

}  // namespace convoy::test
