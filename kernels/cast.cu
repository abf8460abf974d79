// Conversion between dense f32 matrices (parameters, their gradients) and padded tensors in the
// precision of the convolutions.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

/// Copies `from` [rows, channels] to `to` [all_rows, stored]; the rest of `to` becomes zero.
template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    pad_rows(const float* from, int64_t rows, int channels, int64_t all_rows, int stored, T* to) {
    const int channel = first_channel<V>();
    if (channel >= stored) return;
    each_row(all_rows, [&](int64_t row) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (row < rows && channel + k < channels) v[k] = from[row * channels + channel + k];
        store(v, to + row * stored + channel);
    });
}

constexpr int quad = 4;                                        // f32 elements of a 16-byte store
constexpr int quads_ahead = 4;                                 // quads that a thread loads before it stores the first
constexpr int crop_tile = block_threads * quad * quads_ahead;  // elements per block

/// A matrix of a CropTable: the fields of Cropped, and the number of its first block.
struct CropEntry {
    const void* from;
    float* to;
    uint32_t count, first_block;  // count: rows * channels
    int channels, stored;
    bool aligned, wide;  // aligned: `to` takes 16-byte stores. wide: each of them also reads one aligned quad of `from`
};
/// Matrices of one type, as an argument of a kernel. A kernel may have 4 KiB of arguments.
struct CropTable {
    static constexpr int most = 100;
    CropEntry entries[most];
    int count = 0;
    uint32_t blocks = 0;
};
static_assert(sizeof(CropTable) <= 4096);

/// Converts all matrices of a table; a block converts crop_tile elements of one matrix.
template <class T> __global__ void __launch_bounds__(block_threads) crop_matrices(const CropTable table) {
    int low = 0;
    for (int high = table.count; high - low > 1;) {
        const int middle = (low + high) / 2;
        (table.entries[middle].first_block <= blockIdx.x ? low : high) = middle;
    }
    const CropEntry e = table.entries[low];
    const T* from = static_cast<const T*>(e.from);
    const uint32_t begin = (blockIdx.x - e.first_block) * crop_tile + threadIdx.x * quad,
                   channels = uint32_t(e.channels);
    const auto source = [&](uint32_t i) {
        return from + (e.channels == e.stored ? i : i / channels * uint32_t(e.stored) + i % channels);
    };
    if (e.wide) {
        Pack<T, quad> raw[quads_ahead];
        for (int q = 0; q < quads_ahead; ++q)
            if (const uint32_t i = begin + q * block_threads * quad; i < e.count) raw[q] = fetch<quad>(source(i));
        for (int q = 0; q < quads_ahead; ++q) {
            float v[quad];
            unpack(raw[q], v);
            if (const uint32_t i = begin + q * block_threads * quad; i < e.count) store(v, e.to + i);
        }
        return;
    }
    for (uint32_t i = begin; i < e.count && i < begin + crop_tile; i += block_threads * quad) {
        float v[quad] = {};
        const uint32_t left = e.count - i;
        for (uint32_t k = 0; k < quad && k < left; ++k) v[k] = to_float(read_from(source(i + k)));
        if (e.aligned && left >= quad)
            store(v, e.to + i);
        else
            for (uint32_t k = 0; k < quad && k < left; ++k) write_to(e.to + i + k, v[k]);
    }
}

constexpr int64_t cast_blocks = int64_t(1) << 20;

}  // namespace

void pad(const float* from, int64_t rows, int channels, const Tensor& to, cudaStream_t stream) {
    const int64_t all_rows = int64_t(to.shape.pixels());
    const int stored = to.shape.c;
    require(rows <= all_rows && channels <= stored, "pad: the target is smaller than the source");
    if (all_rows == 0) return;
    with_layout(to.dtype, stored, {to.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(stored / v, all_rows, cast_blocks);
        launch(pad_rows<T, v>, g.grid, g.block, 0, stream, from, rows, channels, all_rows, stored, data_of<T>(to));
    });
}

void crop(const std::vector<Cropped>& all, cudaStream_t stream) {
    CropTable table;
    const auto launch_table = [&](DType type) {
        if (table.count > 0)
            with_type(type, [&](auto t) {
                launch(crop_matrices<decltype(t)>, dim3(table.blocks), dim3(block_threads), 0, stream, table);
            });
        table.count = 0;
        table.blocks = 0;
    };
    for (size_t i = 0; i < all.size(); ++i) {
        const auto& [from, rows, channels, to] = all[i];
        const int stored = from.shape.c;
        require(rows <= int64_t(from.shape.pixels()) && channels <= stored,
                "crop: the source is smaller than the target");
        require(rows * stored < most_rows, "crop: a matrix has too many elements");
        if (i > 0 && (all[i - 1].from.dtype != from.dtype || table.count == CropTable::most))
            launch_table(all[i - 1].from.dtype);
        const int64_t count = rows * channels;
        if (count == 0) continue;
        const bool aligned = aligned16({to}),
                   quads = channels % quad == 0 && stored % quad == 0 &&
                           reinterpret_cast<uintptr_t>(from.data) % (quad * size_of(from.dtype)) == 0;
        table.entries[table.count++] = {from.data, to,     uint32_t(count), table.blocks,
                                        channels,  stored, aligned,         aligned && quads};
        table.blocks += blocks_for(count, crop_tile);
    }
    if (!all.empty()) launch_table(all.back().from.dtype);
}

void crop(const Tensor& from, int64_t rows, int channels, float* to, cudaStream_t stream) {
    crop({{from, rows, channels, to}}, stream);
}

}  // namespace convoy::kernels
