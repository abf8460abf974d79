// The grid of fibers itself: it keeps CUDA's guarantees, and it finds errors of kernels.
#include "tests/kernels/fibers/cuda_on_host.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/launch.cuh"

namespace convoy::test {
namespace {

constexpr unsigned all_lanes = ~0u;
const auto launch = [](auto... arguments) { kernels::launch(arguments...); };

__global__ void write_indices(int* to) {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x,
                   thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    to[block * blockDim.x * blockDim.y * blockDim.z + thread] += int(1 + block * 100 + thread);
}

TEST(Fibers, RunEveryThreadOnce) {
    for (const Order order : {Order::forward, Order::reversed, Order::shuffled}) {
        set_thread_order(order);
        std::vector<int> to(6 * 30);
        launch(write_indices, dim3(3, 2), dim3(5, 3, 2), 0, nullptr, to.data());
        for (int block = 0; block < 6; ++block)
            for (int thread = 0; thread < 30; ++thread) EXPECT_EQ(to[block * 30 + thread], 1 + block * 100 + thread);
    }
    set_thread_order(Order::forward);
}

/// Each thread passes its number to the next; `wait` is the barrier that a correct kernel needs.
__global__ void pass_on(int* to, bool wait) {
    int* shared = kernels::shared_memory<int>();
    shared[threadIdx.x] = int(threadIdx.x);
    if (wait) __syncthreads();
    to[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

std::vector<int> passed_on(bool wait, Order order) {
    set_thread_order(order);
    std::vector<int> to(64);
    launch(pass_on, dim3(1), dim3(64), 64 * sizeof(int), nullptr, to.data(), wait);
    set_thread_order(Order::forward);
    return to;
}

TEST(Fibers, AMissingBarrierShows) {
    std::vector<int> expected(64);
    std::iota(expected.begin(), expected.end(), 1);
    expected[63] = 0;
    bool wrong = false;
    for (const Order order : {Order::forward, Order::reversed, Order::shuffled}) {
        EXPECT_EQ(passed_on(true, order), expected);
        wrong |= passed_on(false, order) != expected;
    }
    EXPECT_TRUE(wrong);
}

__global__ void warp_talk(int* sums, int* broadcast, unsigned* votes, int* shifted) {
    const int i = int(threadIdx.x);
    int sum = i;
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(all_lanes, sum, lanes);
    sums[i] = sum;
    broadcast[i] = __shfl_sync(all_lanes, i, 3);
    votes[i] = __ballot_sync(all_lanes, i % 3 == 0);
    shifted[i] = __shfl_down_sync(all_lanes, i, 5);
    __syncwarp();
    if (__any_sync(all_lanes, i == 40)) sums[i] += 1000;
}

TEST(Fibers, WarpsShuffleAndVote) {
    for (const Order order : {Order::forward, Order::reversed, Order::shuffled}) {
        set_thread_order(order);
        std::vector<int> sums(64), broadcast(64), shifted(64);
        std::vector<unsigned> votes(64);
        launch(warp_talk, dim3(1), dim3(64), 0, nullptr, sums.data(), broadcast.data(), votes.data(), shifted.data());
        for (int i = 0; i < 64; ++i) {
            const int warp = i / 32;
            EXPECT_EQ(sums[i], 31 * 16 + warp * 32 * 32 + warp * 1000);
            EXPECT_EQ(broadcast[i], warp * 32 + 3);
            EXPECT_EQ(shifted[i], i % 32 < 27 ? i + 5 : i);
            unsigned expected = 0;
            for (int lane = 0; lane < 32; ++lane) expected |= unsigned((warp * 32 + lane) % 3 == 0) << lane;
            EXPECT_EQ(votes[i], expected);
        }
    }
    set_thread_order(Order::forward);
}

/// The block that finishes last sums the results of all blocks.
__global__ void last_block_sums(const int* values, int* partial, int* finished, int* total) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 0;
        for (unsigned k = 0; k < blockDim.x; ++k) partial[blockIdx.x] += values[blockIdx.x * blockDim.x + k];
        __threadfence();
        last = atomicAdd(finished, 1) == int(gridDim.x) - 1;
    }
    __syncthreads();
    if (last) atomicAdd(total, int(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0));
}

TEST(Fibers, TheLastBlockCanFinish) {
    std::vector<int> values(7 * 32), partial(7, -1);
    std::iota(values.begin(), values.end(), 0);
    for (const Order order : {Order::forward, Order::reversed, Order::shuffled}) {
        set_thread_order(order);
        int finished = 0, total = 0;
        launch(last_block_sums, dim3(7), dim3(32), 0, nullptr, values.data(), partial.data(), &finished, &total);
        EXPECT_EQ(total, 224 * 223 / 2);
    }
    set_thread_order(Order::forward);
}

__global__ void largest(const int* values, int* most) { atomicMax(most, values[threadIdx.x]); }

TEST(Fibers, TheLargestIsKept) {
    const std::vector<int> values = {-9, -3, -7};
    int most = -100;
    launch(largest, dim3(1), dim3(3), 0, nullptr, values.data(), &most);
    EXPECT_EQ(most, -3);
}

__global__ void some_leave() {
    if (threadIdx.x < 3) return;
    __syncthreads();
}
__global__ void two_places() {
    if (threadIdx.x < 3)
        __syncthreads();
    else
        __syncthreads();
}
__global__ void half_a_warp() {
    if (threadIdx.x < 16) __shfl_xor_sync(all_lanes, 1, 1);
}
__global__ void not_in_the_mask() { __syncwarp(0xfffffffe); }
__global__ void reads_a_stranger() {
    if (threadIdx.x < 16) __shfl_sync(0xffff, 1, 20);
}

/// Returns the message of the launch without the place.
std::string complaint(void (*kernel)(), dim3 grid, dim3 block, size_t shared = 0) {
    try {
        launch(kernel, grid, block, shared, nullptr);
    } catch (const std::runtime_error& e) {
        const std::string text = e.what();
        return text.substr(0, text.find(": block ("));
    }
    return "";
}

TEST(Fibers, WhatNoGPUAllowsIsAnError) {
    EXPECT_EQ(complaint(some_leave, 1, 64), "a barrier is not reached by all");
    EXPECT_EQ(complaint(two_places, 1, 64), "a barrier is not reached by all");
    EXPECT_EQ(complaint(half_a_warp, 1, 32), "a barrier is not reached by all");
    EXPECT_EQ(complaint(not_in_the_mask, 1, 32), "a thread waits with a mask that leaves it out");
    EXPECT_EQ(complaint(reads_a_stranger, 1, 32), "a lane reads from one that takes no part");
    EXPECT_EQ(complaint(half_a_warp, 1, 16), "a mask names lanes that the block does not have");
    EXPECT_EQ(complaint(some_leave, dim3(0), 32), "launch: grid dimensions");
    EXPECT_EQ(complaint(some_leave, 1, 1025), "launch: block dimensions");
    EXPECT_EQ(complaint(some_leave, 1, 32, 49153), "launch: more than 48 KiB of shared memory");
}

__global__ void throws_in_one_thread() {
    if (threadIdx.x == 5) throw std::runtime_error("thread 5");
    __syncthreads();
}

TEST(Fibers, AnExceptionEndsTheGrid) {
    EXPECT_EQ(complaint(throws_in_one_thread, 3, 32), "thread 5");
    EXPECT_EQ(complaint(throws_in_one_thread, 3, 4), "");  // and the next one runs
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void one_too_far(float* to, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i <= n) to[i] = 1;
}
__global__ void shared_too_far() { kernels::shared_memory<float>()[threadIdx.x + 1] = 1; }

TEST(FibersDeathTest, TheSanitizerSeesOneElementTooFar) {
    std::vector<float> to(50);
    EXPECT_DEATH(launch(one_too_far, dim3(2), dim3(32), 0, nullptr, to.data(), 50), "heap-buffer-overflow");
    EXPECT_DEATH(launch(shared_too_far, dim3(1), dim3(32), 32 * sizeof(float), nullptr), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace convoy::test
