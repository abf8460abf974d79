// Kernels over a matrix [rows, channels], one pixel per row. A block is x channel groups by y rows.
// Threads therefore read consecutive memory, and keep their channels from row to row. Column sums
// have two stages: blocks sum chunks of rows in float, then one kernel sums the chunks in double.
#pragma once
#include <algorithm>

#include "kernels/elements.cuh"
#include "kernels/launch.cuh"

namespace convoy::kernels {

constexpr int64_t most_rows = int64_t(1) << 31;

/// A launch in which blockIdx.x counts chunks of rows, and blockIdx.y tiles of channel groups.
struct RowGrid {
    dim3 grid, block;
};

inline RowGrid row_grid(int groups, int64_t chunks) {
    const int tiles = (groups + 31) / 32, x = (groups + tiles - 1) / tiles;
    require(chunks > 0 && chunks < int64_t(1) << 31 && tiles < 65536, "a launch is empty or too large");
    return {dim3(unsigned(chunks), unsigned(tiles)), dim3(unsigned(x), unsigned(block_threads / x))};
}

/// Returns a grid for passes without sums. It has at most `most_blocks` blocks, which fill any chip
/// several times. A thread's channel constants therefore serve many rows.
inline RowGrid row_grid(int groups, int64_t rows, int64_t most_blocks) {
    require(rows < most_rows, "a tensor has too many pixels");
    RowGrid g = row_grid(groups, 1);
    g.grid.x = unsigned(
        std::clamp<int64_t>((rows + g.block.y - 1) / g.block.y, 1, std::max<int64_t>(1, most_blocks / g.grid.y)));
    return g;
}

/// The rows of this thread: every blockDim.y-th of its block's chunk. The chunks cover all rows.
/// Indices have 32 bits, because a thread may have one row, and a 64-bit division would take longer
/// than that row.
struct ThreadRows {
    uint32_t first, last;
    __device__ explicit ThreadRows(int64_t rows) {
        const uint32_t each = uint32_t(rows) / gridDim.x, more = uint32_t(rows) % gridDim.x,
                       begin = blockIdx.x * each + (blockIdx.x < more ? blockIdx.x : more);
        first = begin + threadIdx.y;
        last = begin + each + (blockIdx.x < more);
    }
};

/// Calls body(row) for this thread's rows, in ascending order.
template <class Body> __device__ void each_row(int64_t rows, Body body) {
    const ThreadRows mine(rows);
    for (uint32_t row = mine.first; row < mine.last; row += blockDim.y) body(int64_t(row));
}

/// Processes R rows at a time from `row` on, then the rest with R halved.
template <int R, class Fetch, class Use>
__device__ void rows_at_once(uint32_t row, uint32_t last, Fetch& fetch, Use& use) {
    for (; row + (R - 1) * blockDim.y < last; row += R * blockDim.y) {
        decltype(fetch(int64_t(row))) raw[R];
        for (int r = 0; r < R; ++r) raw[r] = fetch(int64_t(row + r * blockDim.y));
        for (int r = 0; r < R; ++r) use(int64_t(row + r * blockDim.y), raw[r]);
    }
    if constexpr (R > 1) rows_at_once<R / 2>(row, last, fetch, use);
}

/// Calls use(row, fetch(row)) for the same rows in the same order, but fetches R rows before using
/// the first. A compiler cannot do so by itself, because `use` may write to what the next row
/// reads.
template <int R, class Fetch, class Use> __device__ void each_row(int64_t rows, Fetch fetch, Use use) {
    const ThreadRows mine(rows);
    rows_at_once<R>(mine.first, mine.last, fetch, use);
}

/// The position of a row in images [n, h, w].
struct Pixel {
    int n, i, j;
    __device__ Pixel(int64_t row, int h, int w)
        : n(int(uint32_t(row) / uint32_t(w) / uint32_t(h))),
          i(int(uint32_t(row) / uint32_t(w) % uint32_t(h))),
          j(int(uint32_t(row) % uint32_t(w))) {}
};

/// Returns this thread's first channel.
template <int V> __device__ int first_channel() { return int(blockIdx.y * blockDim.x + threadIdx.x) * V; }

/// Two blocks per SM of an H100: one wave there, and little for finish_sums to read. It is the same
/// on every chip, because the order of a sum must follow from shapes alone.
constexpr int64_t most_chunks = 2 * 132;

/// Returns the number of chunks in sums over `rows` rows. A chunk has about 64 rows or more, so
/// that a partial sum costs at most a sixteenth of what it sums.
inline int64_t sum_chunks(int64_t rows) {
    require(rows < most_rows, "a tensor has too many pixels");
    return std::min<int64_t>((rows + 63) / 64, most_chunks);
}

template <int S, int V> size_t sum_shared_bytes(const RowGrid& g) {
    return size_t(g.block.x) * g.block.y * S * V * sizeof(float);
}

/// Writes the sums over a block's threads to partial [chunks][S][stored]. All threads of a block
/// call it.
template <int S, int V> __device__ void write_block_sums(const float (&sum)[S][V], int stored, float* partial) {
    float* shared = shared_memory<float>();
    const int row_size = int(blockDim.x) * S * V, thread = int(threadIdx.y * blockDim.x + threadIdx.x);
    for (int s = 0; s < S; ++s)
        for (int k = 0; k < V; ++k) shared[thread * S * V + s * V + k] = sum[s][k];
    __syncthreads();
    for (int i = thread; i < row_size; i += int(blockDim.x * blockDim.y)) {
        double total = 0;  // up to 256 terms that may cancel
        for (int y = 0; y < int(blockDim.y); ++y) total += double(shared[y * row_size + i]);
        const int s = i / V % S, channel = (int(blockIdx.y * blockDim.x) + i / (S * V)) * V + i % V;
        if (channel < stored) partial[(int64_t(blockIdx.x) * S + s) * stored + channel] = float(total);
    }
}

constexpr int finish_lanes = 32;  // channels per block, and chunks that it reads at a time

/// Calls then(channel, double total [S]) for every channel.
template <int S, class Then>
__global__ void __launch_bounds__(finish_lanes* finish_lanes)
    finish_sums(const float* partial, int64_t chunks, int stored, int channels, Then then) {
    double* shared = shared_memory<double>();  // [chunk lane][S][channel lane]
    const int channel = int(blockIdx.x * finish_lanes + threadIdx.x);
    double total[S] = {};
    if (channel < channels)
        for (int64_t chunk = threadIdx.y; chunk < chunks; chunk += finish_lanes)
            for (int s = 0; s < S; ++s) total[s] += double(partial[(chunk * S + s) * stored + channel]);
    for (int s = 0; s < S; ++s) shared[(threadIdx.y * S + s) * finish_lanes + threadIdx.x] = total[s];
    __syncthreads();
    if (threadIdx.y > 0 || channel >= channels) return;
    for (int s = 0; s < S; ++s)
        for (int y = 1; y < finish_lanes; ++y) total[s] += shared[(y * S + s) * finish_lanes + threadIdx.x];
    then(channel, total);
}

template <int S, class Then>
void launch_finish(const float* partial, int64_t rows, int stored, int channels, Then then, cudaStream_t stream) {
    launch(finish_sums<S, Then>, dim3(blocks_for(channels, finish_lanes)), dim3(finish_lanes, finish_lanes),
           finish_lanes * finish_lanes * S * sizeof(double), stream, partial, sum_chunks(rows), stored, channels, then);
}

}  // namespace convoy::kernels
