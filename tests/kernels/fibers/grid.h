// Runs a CUDA grid on one thread of the host: block after block, each thread of a block a fiber
// that runs until it waits for others. Tests choose the order of blocks and threads: if a barrier
// is missing, some order gives another result. These are errors, too: a barrier that not all
// threads reach; one that they reach at different places; a shuffle with lanes that do not take
// part; a launch beyond the limits of every GPU.
#pragma once
#include <vector_types.h>

#include <cstdint>
#include <functional>
#include <source_location>

namespace convoy::test {

enum class Order { forward, reversed, shuffled };
/// Sets the order for all later grids.
void set_thread_order(Order);

/// Runs a grid. Throws std::runtime_error that names the thread and the place.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

// Functions for the running thread.
void wait_for_block(std::source_location);
void wait_for_warp(unsigned mask, std::source_location);
/// Exchanges values: every lane of the mask passes a value and gets that of lane `source`.
uint64_t exchange(unsigned mask, uint64_t value, int source, std::source_location);
int lane();
/// Returns the block's shared memory: on the heap, with the size of the launch, filled with 0xff (a
/// NaN) when the block begins.
void* shared_memory();
/// Bytes that this thread's grids read from tensors and wrote to them, and the number of vectors in
/// which they wrote. Parameters and partial sums are not counted.
struct Traffic {
    uint64_t read = 0, written = 0, stores = 0;
};
Traffic& traffic();
/// Returns a time in nanoseconds that is a microsecond later at every call.
uint64_t device_time();
/// Lets the clock of device_time() go forward.
void let_device_time_pass(uint64_t nanoseconds);

}  // namespace convoy::test
