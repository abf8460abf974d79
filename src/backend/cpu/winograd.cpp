#include "backend/cpu/winograd.h"

#include <algorithm>

#include "backend/cpu/rows.h"
#include "backend/cpu/winograd_weights.h"

namespace convoy::cpu {
namespace {

/// Tiles that a thread transforms together: of few channels so few that a block of F(4x4) stays in
/// the second cache, of many so many that reading the weights again for each block does not show.
/// Large tiles have twice the points and more.
template <int M> int block_tiles(int c, int d) {
    if (c + d <= 128) return 28;
    return (c + d <= 256 ? 56 : 112) / (M == 4 ? 1 : 2);
}
/// In the weight gradient each block adds to all sums.
template <int M> int gradient_block(int c, int d) { return std::max(56, block_tiles<M>(c, d)); }

// Instead of all columns (outputs; inputs in the weight gradient) of some tiles, a thread may take
// some of the columns of all tiles: it transforms their weights a panel at a time, and no two
// threads transform the same. Of a panel it takes cached_rows at a time, in order, so that sums are
// the same. Where that pays was measured with two threads (tests/RESULTS.md).

/// Of few tiles the weights are the larger part.
bool by_columns(int64_t tiles, int threads) { return tiles <= 32 * threads; }

/// A thread's sums of all columns are read and written with every block of tiles; of a panel they
/// stay in the second cache. It pays from 3.5 MiB of sums on, and does not at 2.4.
template <int M> bool gradient_by_columns(const Winograd& w, int64_t tiles) {
    const size_t sums = sizeof(float) * points<M> * w.in * w.out;
    const bool all_have_columns = w.in >= w.threads * panel;
    return by_columns(tiles, w.threads) || (all_have_columns && sums >= 3 << 20);
}
/// Tiles that the weight gradient takes together, by columns.
int64_t slab_of(int64_t tiles, int threads) { return std::min<int64_t>(tiles, 32 * threads); }

/// Calls body(std::integral_constant<int, M>) for the size of a tile.
template <class Body> auto with_tile(int tile, Body body) {
    if (tile == 7) return body(std::integral_constant<int, 7>());
    if (tile == 8) return body(std::integral_constant<int, 8>());
    return body(std::integral_constant<int, 4>());
}

/// What `convolve` lays out in its workspace, from c channels to d.
template <int M> size_t convolution_floats(const Winograd& w, int c, int d) {
    const int64_t tiles = Tiling<M>(w.n, w.h, w.w).count(), block = block_tiles<M>(c, d);
    const auto floats = Block<M>::floats;
    if (by_columns(tiles, w.threads))
        return floats(tiles, c) + w.threads * (transformed_floats<M>(cached_rows, panel) + floats(tiles, panel));
    return transformed_floats<M>(c, d) + w.threads * (floats(block, c) + floats(block, d));
}

/// What the weight gradient lays out.
template <int M> size_t gradient_floats(const Winograd& w) {
    const int64_t tiles = Tiling<M>(w.n, w.h, w.w).count(), block = gradient_block<M>(w.in, w.out);
    const auto floats = Block<M>::floats;
    const int64_t slab = slab_of(tiles, w.threads);
    if (gradient_by_columns<M>(w, tiles))
        return floats(slab, w.in) + floats(slab, w.out) + w.threads * points<M> * point_stride(cached_rows, panel);
    return w.threads *
           (points<M> * point_stride(w.out, rounded(w.in, lanes)) + floats(block, w.in) + floats(block, w.out));
}

}  // namespace

bool Winograd::suits(int h, int w, int in, int out) { return in >= lanes && out >= lanes && h >= 3 && w >= 3; }

size_t Winograd::workspace_bytes() const {
    return with_tile(tile, [&]<int M>(std::integral_constant<int, M>) {
        return sizeof(float) * std::max({convolution_floats<M>(*this, in, out), convolution_floats<M>(*this, out, in),
                                         gradient_floats<M>(*this)});
    });
}

CONVOY_AVX512_BEGIN

namespace {

/// One block of products at all points: to = from * weights.
template <int M> void multiply(const Block<M>& from, const Panels& weights, const Block<M>& to, int tiles) {
    for (int point = 0; point < points<M>; ++point)
        for (int p = 0; p < weights.count(); ++p) {
            const bool half = weights.columns - p * panel <= lanes;
            (half ? multiply_panel<1> : multiply_panel<2>)(tiles, weights.rows, from.at(point, 0),
                                                           size_t(from.row_stride), 1, weights.at(point, p), panel,
                                                           to.at(point, 0) + p * panel, size_t(to.row_stride), false);
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
template <int M, class E, class Transform>
void convolve(const Winograd& w, const E* from, int c, E* to, int d, bool add, float* workspace, Transform transform) {
    const Tiling<M> tiling(w.n, w.h, w.w);
    const int64_t tiles = tiling.count();
    if (by_columns(tiles, w.threads)) {
        const Block<M> in(workspace, tiles, c);
        float* const rest = workspace + Block<M>::floats(tiles, c);
        on_threads(w.threads, [&](int thread) {
            const int64_t first = tiles * thread / w.threads;
            read_tiles<M, window<M>, Transforms<M>::image>(from, tiling, c, 1, first, tiles * (thread + 1) / w.threads,
                                                           Block<M>{in.at(0, first), tiles, c});
            const Block<M> out(rest + thread * Block<M>::floats(tiles, panel), tiles, panel);
            float* const transformed =
                rest + w.threads * Block<M>::floats(tiles, panel) + thread * transformed_floats<M>(cached_rows, panel);
#pragma omp barrier
            over_panels(d, thread, w.threads, [&](int begin, int count) {
                for (int k = 0; k < c; k += cached_rows) {
                    const Panels weights{transformed, std::min(cached_rows, c - k), panel, k, begin};
                    transform(weights, begin, begin + rounded(count, lanes));
                    for (int point = 0; point < points<M>; ++point)
                        (count <= lanes ? multiply_panel<1>
                                        : multiply_panel<2>)(int(tiles), weights.rows, in.at(point, 0) + k,
                                                             size_t(in.row_stride), 1, weights.at(point, 0), panel,
                                                             out.at(point, 0), panel, k > 0);
                }
                write_tiles(out, tiling, d, begin, count, 0, tiles, to, add);
            });
        });
        return;
    }
    const Panels weights{workspace, c, d};
    float* const blocks = workspace + transformed_floats<M>(c, d);
    const int64_t block = block_tiles<M>(c, d);
    on_threads(w.threads, [&](int thread) {
        const int vectors = rounded(d, panel) / lanes;
        transform(weights, vectors * thread / w.threads * lanes, vectors * (thread + 1) / w.threads * lanes);
        const Block<M> in(blocks + thread * (Block<M>::floats(block, c) + Block<M>::floats(block, d)), block, c),
            out(in.data + Block<M>::floats(block, c), block, d);
#pragma omp barrier
        const int64_t end = tiles * (thread + 1) / w.threads;
        for (int64_t first = tiles * thread / w.threads; first < end; first += block) {
            const int64_t last = std::min(first + block, end);
            read_tiles<M, window<M>, Transforms<M>::image>(from, tiling, c, 1, first, last, in);
            multiply(in, weights, out, int(last - first));
            write_tiles(out, tiling, d, 0, d, first, last, to, add);
        }
    });
}

/// Sums of weight gradients: [points][outputs, from `first` on][columns].
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
template <int M>
void multiply_gradients(const Block<M>& gradients, const Block<M>& seen, int column, int count, int tiles,
                        const GradientSum& to, bool add) {
    for (int point = 0; point < points<M>; ++point)
        for (int i = 0; i < count; i += panel)
            (count - i <= lanes ? multiply_panel<1>
                                : multiply_panel<2>)(to.outputs, tiles, gradients.at(point, 0) + to.first, 1,
                                                     size_t(gradients.row_stride), seen.at(point, 0) + column + i,
                                                     size_t(seen.row_stride), to.data + point * to.stride() + i,
                                                     size_t(to.columns), add);
}

/// dweight [out, 3, 3, in], of output o and inputs [begin, begin + count): from sum(point, input -
/// begin); added to it if `add`.
template <int M, class Sum>
void write_weight_gradient(int o, int begin, int count, int in, float* dweight, bool add, Sum sum) {
    constexpr size_t outputs_ahead = 8;
    for (int i = 0; i < count; i += lanes) {
        float* const to = dweight + size_t(o) * 9 * in + begin + i;
        const __mmask16 mask = mask_of(count - i);
        for (int tap = 0; tap < 9; ++tap) fetch_ahead(to + (outputs_ahead * 9 + tap) * in);
        both_ways<window<M>, 3, Transforms<M>::weight_gradient>([&](int y, int x) { return sum(y * window<M> + x, i); },
                                                                [&](int y, int x, Vector g) {
                                                                    float* const tap = to + size_t(y * 3 + x) * in;
                                                                    store(tap, mask, add ? g + load(tap, mask) : g);
                                                                });
    }
}

template <int M, class E>
void weight_gradient_by_columns(const Winograd& c, const E* x, const E* dy, float* dweight, float* base) {
    const Tiling<M> tiling(c.n, c.h, c.w);
    const int64_t tiles = tiling.count(), slab = slab_of(tiles, c.threads), slabs = (tiles + slab - 1) / slab;
    const Block<M> seen(base, slab, c.in), gradients(base + Block<M>::floats(slab, c.in), slab, c.out);
    float* const rest = gradients.data + Block<M>::floats(slab, c.out);
    on_threads(c.threads, [&](int thread) {
        float* const sums = rest + thread * points<M> * point_stride(cached_rows, panel);
        for (int64_t i = 0; i < slabs; ++i) {
            const int64_t begin = tiles * i / slabs, count = tiles * (i + 1) / slabs - begin;
            const int64_t first = count * thread / c.threads, last = count * (thread + 1) / c.threads;
            read_tiles<M, window<M>, Transforms<M>::image>(x, tiling, c.in, 1, begin + first, begin + last,
                                                           Block<M>{seen.at(0, first), slab, c.in});
            read_tiles<M, M, Transforms<M>::gradient>(dy, tiling, c.out, 0, begin + first, begin + last,
                                                      Block<M>{gradients.at(0, first), slab, c.out});
#pragma omp barrier
            over_panels(c.in, thread, c.threads, [&](int column, int columns) {
                for (int o = 0; o < c.out; o += cached_rows) {
                    const GradientSum sum{sums, o, std::min(cached_rows, c.out - o), panel};
                    multiply_gradients(gradients, seen, column, columns, int(count), sum, false);
                    for (int of = o; of < o + sum.outputs; ++of)
                        write_weight_gradient<M>(of, column, columns, c.in, dweight, i > 0, [&](int point, int at) {
                            return _mm512_load_ps(sum.at(point, of, at));
                        });
                }
            });
#pragma omp barrier
        }
    });
}

template <int M, class E>
void weight_gradient_by_tiles(const Winograd& c, const E* x, const E* dy, float* dweight, float* base) {
    const auto [n, h, w, in, out, threads, tile] = c;
    const Tiling<M> tiling(n, h, w);
    const int64_t tiles = tiling.count();
    const int columns = rounded(in, lanes);
    const int64_t block = gradient_block<M>(in, out);
    const size_t sums = points<M> * point_stride(out, columns);
    on_threads(threads, [&](int thread) {
        const GradientSum mine{base + thread * sums, 0, out, columns}, all{base, 0, out, columns};
        const Block<M> seen(
            base + threads * sums + thread * (Block<M>::floats(block, in) + Block<M>::floats(block, out)), block, in);
        const Block<M> gradients(seen.data + Block<M>::floats(block, in), block, out);
        const int64_t begin = tiles * thread / threads, end = tiles * (thread + 1) / threads;
        for (int64_t first = begin; first < end; first += block) {
            const int64_t last = std::min(first + block, end);
            read_tiles<M, window<M>, Transforms<M>::image>(x, tiling, in, 1, first, last, seen);
            read_tiles<M, M, Transforms<M>::gradient>(dy, tiling, out, 0, first, last, gradients);
            multiply_gradients(gradients, seen, 0, in, int(last - first), mine, first > begin);
        }
#pragma omp barrier
        for (int o = out * thread / threads; o < out * (thread + 1) / threads; ++o)
            write_weight_gradient<M>(o, 0, in, in, dweight, false, [&](int point, int i) {
                const float* at = all.at(point, o, i);
                Vector sum = _mm512_load_ps(at);
                for (int t = 1; t < threads; ++t) sum += _mm512_load_ps(at + t * sums);
                return sum;
            });
    });
}

}  // namespace

template <class E> void Winograd::forward(const E* x, const float* weight, E* y, void* workspace) const {
    with_tile(tile, [&]<int M>(std::integral_constant<int, M>) {
        convolve<M>(
            *this, x, in, y, out, false, static_cast<float*>(workspace),
            [&](const Panels& to, int begin, int end) { transform_weights<M>(weight, in, out, to, begin, end); });
    });
}

template <class E>
void Winograd::data_gradient(const E* dy, const float* weight, E* dx, bool add, void* workspace) const {
    with_tile(tile, [&]<int M>(std::integral_constant<int, M>) {
        convolve<M>(
            *this, dy, out, dx, in, add, static_cast<float*>(workspace),
            [&](const Panels& to, int begin, int end) { transform_mirrored_weights<M>(weight, in, to, begin, end); });
    });
}

template <class E> void Winograd::weight_gradient(const E* x, const E* dy, float* dweight, void* workspace) const {
    with_tile(tile, [&]<int M>(std::integral_constant<int, M>) {
        const bool by_columns = gradient_by_columns<M>(*this, Tiling<M>(n, h, w).count());
        (by_columns ? weight_gradient_by_columns<M, E>
                    : weight_gradient_by_tiles<M, E>)(*this, x, dy, dweight, static_cast<float*>(workspace));
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
