#include "backend/cpu/winograd.h"

#include <algorithm>

#include "backend/cpu/rows.h"
#include "backend/cpu/winograd_tiles.h"

namespace convoy::cpu {
namespace {

/// Tiles that a thread transforms together: of few channels so many that a block stays in the
/// second cache, of many so many that reading the weights again for each block does not show.
int block_tiles(int c, int d) { return c + d <= 128 ? 28 : c + d <= 256 ? 56 : 112; }

/// A matrix of rows x columns for each point, off a multiple of 4 KiB from one to the next as a
/// Block's.
size_t point_stride(int rows, int columns) { return size_t(rows) * columns + lanes; }
size_t transformed_floats(int rows, int columns) { return points * point_stride(rows, rounded(columns, panel)); }

/// Rows of a panel's transformed weights, or of its sums, that stay in the second cache.
constexpr int cached_rows = 64;

// With few tiles the weights are the larger part: then a thread takes some of the columns (outputs;
// inputs in the weight gradient) of all tiles instead of all columns of some tiles, transforms
// their weights a panel at a time, and no two threads transform the same. Where that begins to pay
// was measured. Of a panel it takes cached_rows at a time, in order, so that sums are the same.
bool convolves_by_columns(const Tiling& tiling, int threads) { return tiling.count() <= 32 * threads; }
bool gradient_by_columns(const Tiling& tiling, int threads) { return tiling.count() <= 32 * threads; }

}  // namespace

bool Winograd::suits(int h, int w, int in, int out) { return in >= lanes && out >= lanes && h >= 3 && w >= 3; }

size_t Winograd::workspace_bytes() const {
    const Tiling tiling(n, h, w);
    const int64_t tiles = tiling.count(), block = std::max(56, block_tiles(in, out));
    const size_t blocks = size_t(threads) * (Block::floats(block, in) + Block::floats(block, out));
    const size_t all_tiles = Block::floats(tiles, in) + Block::floats(tiles, out);
    const size_t own_columns = size_t(threads) * (transformed_floats(cached_rows, panel) + Block::floats(tiles, panel));
    const size_t convolution = convolves_by_columns(tiling, threads)
                                   ? all_tiles + own_columns
                                   : blocks + std::max(transformed_floats(in, out), transformed_floats(out, in));
    const size_t gradient = gradient_by_columns(tiling, threads)
                                ? all_tiles + own_columns
                                : blocks + size_t(threads) * points * point_stride(out, rounded(in, lanes));
    return sizeof(float) * std::max(convolution, gradient);
}

CONVOY_AVX512_BEGIN

namespace {

/// Into the second cache. Of weights and their gradients, 9 pieces of 64 or 128 bytes are wanted at
/// once, far from one another, which come late unless asked for. May lie beyond the end.
inline void fetch_ahead(const float* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1); }

/// Transformed weights in panels: [36][panel][rows][32 columns]; the last panel is as wide, its
/// last columns zero. They are a part of the matrix, which begins at its row and column `first_…`.
struct Panels {
    float* data;
    int rows, columns;
    int first_row = 0, first_column = 0;
    int count() const { return rounded(columns, panel) / panel; }
    size_t stride() const { return point_stride(rows, count() * panel); }  // between points
    float* at(int point, int p) const { return data + point * stride() + size_t(p) * rows * panel; }
    /// Of point 0.
    float* of(int row, int column) const {
        return at(0, (column - first_column) / panel) + size_t(row - first_row) * panel +
               (column - first_column) % panel;
    }
};

/// Columns [begin, end) of the rows of transformed weights, rows in and columns out. Inputs lie
/// together, and vectors are to be along the outputs: 16 by 16 weights are turned.
void transform_weights(const float* weight, int in, int out, const Panels& to, int begin, int end) {
    alignas(64) Vector taps[9][lanes];
    const size_t stride = to.stride();
    for (int o = begin; o < end; o += lanes)
        for (int first = to.first_row; first < to.first_row + to.rows; first += lanes) {
            const int count = std::min(lanes, to.first_row + to.rows - first);
            for (int tap = 0; tap < 9; ++tap) {
                for (int k = 0; k < lanes; ++k) {
                    const float* from = weight + (size_t(o + k) * 9 + tap) * in + first;
                    taps[tap][k] = load(from, o + k < out ? mask_of(count) : __mmask16(0));
                    fetch_ahead(from + cached_rows);
                }
                transpose(taps[tap]);
            }
            for (int i = 0; i < count; ++i) {
                float* const at = to.of(first + i, o);
                both_ways<3, 6, weight_transform>(
                    [&](int y, int x) { return taps[y * 3 + x][i]; },
                    [&](int y, int x, Vector u) { _mm512_store_ps(at + (y * 6 + x) * stride, u); });
            }
        }
}

/// The same of the mirrored kernel, rows out and columns in.
void transform_mirrored_weights(const float* weight, int in, const Panels& to, int begin, int end) {
    const size_t stride = to.stride(), rows_ahead = 32;
    for (int o = to.first_row; o < to.first_row + to.rows; ++o)
        for (int i = begin; i < end; i += lanes) {
            const __mmask16 mask = i < in ? mask_of(in - i) : __mmask16(0);
            const float* from = weight + size_t(o) * 9 * in + i;
            float* const at = to.of(o, i);
            for (int tap = 0; tap < 9; ++tap) fetch_ahead(from + (rows_ahead * 9 + tap) * in);
            both_ways<3, 6, weight_transform>(
                [&](int y, int x) { return load(from + ((2 - y) * 3 + 2 - x) * in, mask); },
                [&](int y, int x, Vector u) { _mm512_store_ps(at + (y * 6 + x) * stride, u); });
        }
}

/// One block of products at all points: to = from * weights.
void multiply(const Block& from, const Panels& weights, const Block& to, int tiles) {
    for (int point = 0; point < points; ++point)
        for (int p = 0; p < weights.count(); ++p) {
            const bool half = to.channels - p * panel < panel;
            (half ? multiply_panel<1> : multiply_panel<2>)(tiles, weights.rows, from.at(point, 0),
                                                           size_t(from.channels), 1, weights.at(point, p), panel,
                                                           to.at(point, 0) + p * panel, size_t(to.channels), false);
        }
}

/// Calls body(panel's first column, its columns) for this thread's share of the columns.
template <class Body> void over_panels(int columns, int thread, int threads, Body body) {
    const int vectors = rounded(columns, lanes) / lanes, end = vectors * (thread + 1) / threads;
    for (int v = vectors * thread / threads; v < end; v += 2)
        body(v * lanes, std::min(std::min(v + 2, end) * lanes, columns) - v * lanes);
}

/// The convolution that both forward and the data gradient are: `from` [n, h, w, c] to `to` [n, h,
/// w, d]. `transform(panels, begin, end)` fills columns of the transformed weights.
template <class E, class Transform>
void convolve(const Winograd& w, const E* from, int c, E* to, int d, bool add, float* workspace, Transform transform) {
    const Tiling tiling(w.n, w.h, w.w);
    const int64_t tiles = tiling.count();
    if (convolves_by_columns(tiling, w.threads)) {
        const Block in(workspace, tiles, c);
        float* const rest = workspace + Block::floats(tiles, c);
        on_threads(w.threads, [&](int thread) {
            const int64_t first = tiles * thread / w.threads;
            read_tiles<6, input_transform>(from, tiling, c, 1, first, tiles * (thread + 1) / w.threads,
                                           {in.at(0, first), tiles, c});
            const Block out(rest + thread * Block::floats(tiles, panel), tiles, panel);
            float* const transformed =
                rest + w.threads * Block::floats(tiles, panel) + thread * transformed_floats(cached_rows, panel);
#pragma omp barrier
            over_panels(d, thread, w.threads, [&](int begin, int count) {
                for (int k = 0; k < c; k += cached_rows) {
                    const Panels weights{transformed, std::min(cached_rows, c - k), panel, k, begin};
                    transform(weights, begin, begin + rounded(count, lanes));
                    for (int point = 0; point < points; ++point)
                        (count <= lanes ? multiply_panel<1>
                                        : multiply_panel<2>)(int(tiles), weights.rows, in.at(point, 0) + k,
                                                             size_t(in.channels), 1, weights.at(point, 0), panel,
                                                             out.at(point, 0), panel, k > 0);
                }
                write_tiles(out, tiling, d, begin, count, 0, tiles, to, add);
            });
        });
        return;
    }
    const Panels weights{workspace, c, d};
    float* const blocks = workspace + transformed_floats(c, d);
    const int64_t block = block_tiles(c, d);
    on_threads(w.threads, [&](int thread) {
        const int vectors = rounded(d, panel) / lanes;
        transform(weights, vectors * thread / w.threads * lanes, vectors * (thread + 1) / w.threads * lanes);
        const Block in(blocks + thread * (Block::floats(block, c) + Block::floats(block, d)), block, c),
            out(in.data + Block::floats(block, c), block, d);
#pragma omp barrier
        const int64_t end = tiles * (thread + 1) / w.threads;
        for (int64_t first = tiles * thread / w.threads; first < end; first += block) {
            const int64_t last = std::min(first + block, end);
            read_tiles<6, input_transform>(from, tiling, c, 1, first, last, in);
            multiply(in, weights, out, int(last - first));
            write_tiles(out, tiling, d, 0, d, first, last, to, add);
        }
    });
}

/// Sums of weight gradients: [36][outputs, from `first` on][columns].
struct GradientSum {
    float* data;
    int first, outputs, columns;
    size_t stride() const { return point_stride(outputs, columns); }  // between points
    const float* at(int point, int o, int column) const {
        return data + point * stride() + size_t(o - first) * columns + column;
    }
};

/// to (+)= the products of a block's gradients with columns [column, column + count) of what they
/// saw.
void multiply_gradients(const Block& gradients, const Block& seen, int column, int count, int tiles,
                        const GradientSum& to, bool add) {
    for (int point = 0; point < points; ++point)
        for (int i = 0; i < count; i += panel)
            (count - i <= lanes ? multiply_panel<1>
                                : multiply_panel<2>)(to.outputs, tiles, gradients.at(point, 0) + to.first, 1,
                                                     size_t(gradients.channels), seen.at(point, 0) + column + i,
                                                     size_t(seen.channels), to.data + point * to.stride() + i,
                                                     size_t(to.columns), add);
}

/// dweight [out, 3, 3, in], of output o and inputs [begin, begin + count): from sum(point, input -
/// begin).
template <class Sum> void write_weight_gradient(int o, int begin, int count, int in, float* dweight, Sum sum) {
    constexpr size_t outputs_ahead = 8;
    for (int i = 0; i < count; i += lanes) {
        float* const to = dweight + size_t(o) * 9 * in + begin + i;
        for (int tap = 0; tap < 9; ++tap) fetch_ahead(to + (outputs_ahead * 9 + tap) * in);
        both_ways<6, 3, weight_gradient_transform>(
            [&](int y, int x) { return sum(y * 6 + x, i); },
            [&](int y, int x, Vector g) { store(to + size_t(y * 3 + x) * in, mask_of(count - i), g); });
    }
}

}  // namespace

template <class E> void Winograd::forward(const E* x, const float* weight, E* y, void* workspace) const {
    convolve(*this, x, in, y, out, false, static_cast<float*>(workspace),
             [&](const Panels& to, int begin, int end) { transform_weights(weight, in, out, to, begin, end); });
}

template <class E>
void Winograd::data_gradient(const E* dy, const float* weight, E* dx, bool add, void* workspace) const {
    convolve(*this, dy, out, dx, in, add, static_cast<float*>(workspace),
             [&](const Panels& to, int begin, int end) { transform_mirrored_weights(weight, in, to, begin, end); });
}

template <class E> void Winograd::weight_gradient(const E* x, const E* dy, float* dweight, void* workspace) const {
    const Tiling tiling(n, h, w);
    const int64_t tiles = tiling.count();
    float* const base = static_cast<float*>(workspace);
    if (gradient_by_columns(tiling, threads)) {
        const Block seen(base, tiles, in), gradients(base + Block::floats(tiles, in), tiles, out);
        float* const rest = gradients.data + Block::floats(tiles, out);
        on_threads(threads, [&](int thread) {
            const int64_t first = tiles * thread / threads, last = tiles * (thread + 1) / threads;
            read_tiles<6, input_transform>(x, tiling, in, 1, first, last, {seen.at(0, first), tiles, in});
            read_tiles<4, gradient_transform>(dy, tiling, out, 0, first, last, {gradients.at(0, first), tiles, out});
            float* const sums = rest + thread * points * point_stride(cached_rows, panel);
#pragma omp barrier
            over_panels(in, thread, threads, [&](int begin, int count) {
                for (int o = 0; o < out; o += cached_rows) {
                    const GradientSum sum{sums, o, std::min(cached_rows, out - o), panel};
                    multiply_gradients(gradients, seen, begin, count, int(tiles), sum, false);
                    for (int of = o; of < o + sum.outputs; ++of)
                        write_weight_gradient(of, begin, count, in, dweight,
                                              [&](int point, int i) { return _mm512_load_ps(sum.at(point, of, i)); });
                }
            });
        });
        return;
    }
    const int columns = rounded(in, lanes);
    const int64_t block = std::max(56, block_tiles(in, out));
    const size_t sums = points * point_stride(out, columns);
    on_threads(threads, [&](int thread) {
        const GradientSum mine{base + thread * sums, 0, out, columns}, all{base, 0, out, columns};
        const Block seen(base + threads * sums + thread * (Block::floats(block, in) + Block::floats(block, out)), block,
                         in);
        const Block gradients(seen.data + Block::floats(block, in), block, out);
        const int64_t begin = tiles * thread / threads, end = tiles * (thread + 1) / threads;
        for (int64_t first = begin; first < end; first += block) {
            const int64_t last = std::min(first + block, end);
            read_tiles<6, input_transform>(x, tiling, in, 1, first, last, seen);
            read_tiles<4, gradient_transform>(dy, tiling, out, 0, first, last, gradients);
            multiply_gradients(gradients, seen, 0, in, int(last - first), mine, first > begin);
        }
#pragma omp barrier
        for (int o = out * thread / threads; o < out * (thread + 1) / threads; ++o)
            write_weight_gradient(o, 0, in, in, dweight, [&](int point, int i) {
                const float* at = all.at(point, o, i);
                Vector sum = _mm512_load_ps(at);
                for (int t = 1; t < threads; ++t) sum += _mm512_load_ps(at + t * sums);
                return sum;
            });
    });
}

template void Winograd::forward(const float*, const float*, float*, void*) const;
template void Winograd::forward(const bf16*, const float*, bf16*, void*) const;
template void Winograd::data_gradient(const float*, const float*, float*, bool, void*) const;
template void Winograd::data_gradient(const bf16*, const float*, bf16*, bool, void*) const;
template void Winograd::weight_gradient(const float*, const float*, float*, void*) const;
template void Winograd::weight_gradient(const bf16*, const bf16*, float*, void*) const;

CONVOY_AVX512_END  // after the instantiations: they are compiled for the target of this region

}  // namespace convoy::cpu
