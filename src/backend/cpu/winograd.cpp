#include "backend/cpu/winograd.h"

#include <algorithm>

#include "backend/cpu/rows.h"
#include "backend/cpu/winograd_weights.h"

namespace convoy::cpu {
namespace {

// There are two schedules. In the schedule by tiles, all threads transform the weights together,
// then each takes its tiles, one block at a time. For large weights this costs more than it saves.
// One reason is that each thread reads what all others wrote, perhaps into distant caches.
//
// In the schedule by panels, each thread transforms the weights for itself. It takes a slab of its
// tiles and one panel of columns at a time. Columns are output channels, or input channels in the
// weight gradient. The matrix product sums over a panel's rows. Both schedules add them in
// ascending order, so that their sums have the same bits. If there are few tiles, their memory is
// far less than that of the weights. One slab then has all tiles, which the threads fill together.
// Each thread takes a part of the columns, so that no two threads transform the same weights.
// Thresholds were measured with two threads (tests/RESULTS.md).

/// Returns the tiles of a block. With few channels there are few tiles, so that a block of F(4x4)
/// stays in the L2 cache. With many channels there are more, so that reading the weights again for
/// each block does not matter. Large tiles have over twice the points, so these blocks hold half.
template <int M> int block_tiles(int c, int d) {
    if (c + d <= 128) return 28;
    return (c + d <= 256 ? 56 : 112) / (M == 4 ? 1 : 2);
}

bool shares_columns(int64_t tiles, int threads) { return tiles <= 32 * threads; }

template <int M> bool by_panels(int64_t tiles, int threads, int c, int d) {
    constexpr size_t large = 4 << 20;
    return shares_columns(tiles, threads) || sizeof(float) * points<M> * c * d >= large;
}

/// Returns the number of tiles of a slab: at most 16 MiB of them, but at least 32 and at most 96.
/// Fewer tiles would not pay for the transformation of the weights.
template <int M> int64_t slab_of(int64_t tiles, int threads, int c, int d) {
    if (shares_columns(tiles, threads)) return tiles;
    constexpr int64_t most = 96, least = 32, bytes = 16 << 20;
    return std::clamp(bytes / int64_t(sizeof(float) * points<M> * (c + d)), least, most);
}

/// Calls body(std::integral_constant<int, M>) with M = `tile`.
template <class Body> auto with_tile(int tile, Body body) {
    if (tile == 7) return body(std::integral_constant<int, 7>());
    if (tile == 8) return body(std::integral_constant<int, 8>());
    return body(std::integral_constant<int, 4>());
}

/// Returns the number of slabs in work at the same time.
int slabs(int64_t tiles, int threads) { return shares_columns(tiles, threads) ? 1 : threads; }

/// Returns the floats of workspace that convolve() needs, from c channels to d.
template <int M> size_t convolution_floats(const Winograd& w, int c, int d) {
    const int64_t tiles = Tiling<M>(w.n, w.h, w.w).count(), block = block_tiles<M>(c, d);
    const auto floats = Block<M>::floats;
    if (!by_panels<M>(tiles, w.threads, c, d))
        return transformed_floats<M>(c, d) + w.threads * (floats(block, c) + floats(block, d));
    const int64_t slab = slab_of<M>(tiles, w.threads, c, d);
    return slabs(tiles, w.threads) * floats(slab, c) +
           w.threads * (floats(slab, panel) + transformed_floats<M>(cached_rows, panel));
}

/// Returns the floats of a weight gradient, rounded up to vectors.
size_t gradient_floats(const Winograd& w) { return size_t(rounded(9 * w.in * w.out, lanes)); }

/// Returns the floats of workspace that the weight gradient needs.
template <int M> size_t weight_gradient_floats(const Winograd& w) {
    const int64_t tiles = Tiling<M>(w.n, w.h, w.w).count(), slab = slab_of<M>(tiles, w.threads, w.in, w.out);
    const int count = slabs(tiles, w.threads);
    return (count - 1) * gradient_floats(w) + count * (Block<M>::floats(slab, w.in) + Block<M>::floats(slab, w.out)) +
           w.threads * points<M> * point_stride(cached_rows, panel);
}

}  // namespace

bool Winograd::suits(int h, int w, int in, int out) { return in >= lanes && out >= lanes && h >= 3 && w >= 3; }

size_t Winograd::workspace_bytes() const {
    return with_tile(tile, [&]<int M>(std::integral_constant<int, M>) {
        return sizeof(float) * std::max({convolution_floats<M>(*this, in, out), convolution_floats<M>(*this, out, in),
                                         weight_gradient_floats<M>(*this)});
    });
}

CONVOY_AVX512_BEGIN

namespace {

/// Calls body(first column, column count) for each panel in the `part`-th of `parts` parts.
template <class Body> void over_panels(int columns, int part, int parts, Body body) {
    const int vectors = rounded(columns, lanes) / lanes, end = vectors * (part + 1) / parts;
    for (int v = vectors * part / parts; v < end; v += 2)
        body(v * lanes, std::min(std::min(v + 2, end) * lanes, columns) - v * lanes);
}

/// Runs the work of one thread by panels. read(first, last, place) transforms tiles [first, last)
/// to `place` in its slab. take_panel(column, columns, first, last) multiplies a panel with the
/// slab's tiles [first, last).
template <class Read, class TakePanel>
void over_slabs(int64_t tiles, int64_t slab, int columns, int thread, int threads, Read read, TakePanel take_panel) {
    const int64_t begin = tiles * thread / threads, mine = tiles * (thread + 1) / threads - begin;
    if (shares_columns(tiles, threads)) {
        read(begin, begin + mine, begin);
#pragma omp barrier
        over_panels(columns, thread, threads, [&](int column, int count) { take_panel(column, count, 0, tiles); });
        return;
    }
    const int64_t count = (mine + slab - 1) / slab;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t first = begin + mine * i / count, last = begin + mine * (i + 1) / count;
        read(first, last, 0);
        over_panels(columns, 0, 1, [&](int column, int of) { take_panel(column, of, first, last); });
    }
}

/// Convolves `from` [n, h, w, c] into `to` [n, h, w, d], for forward and for the data gradient.
/// transform(panels, begin, end) fills columns of the transformed weights.
template <int M, class E, class Transform>
void convolve_by_panels(const Winograd& w, const E* from, int c, E* to, int d, bool add, float* workspace,
                        Transform transform) {
    const Tiling<M> tiling(w.n, w.h, w.w);
    const int64_t tiles = tiling.count(), slab = slab_of<M>(tiles, w.threads, c, d);
    const int slab_count = slabs(tiles, w.threads);
    const size_t in_floats = Block<M>::floats(slab, c), out_floats = Block<M>::floats(slab, panel);
    on_threads(w.threads, [&](int thread) {
        const Block<M> in(workspace + thread % slab_count * in_floats, slab, c);
        const Block<M> out(
            workspace + slab_count * in_floats + thread * (out_floats + transformed_floats<M>(cached_rows, panel)),
            slab, panel);
        const auto read = [&](int64_t first, int64_t last, int64_t place) {
            read_tiles<M, window<M>, Transforms<M>::image>(from, tiling, c, 1, first, last, in.from(place));
        };
        const auto take_panel = [&](int column, int columns, int64_t first, int64_t last) {
            const int fetched = last - first < cached_rows ? 0 : cached_rows / lanes;  // lines per tile to prefetch
            for (int k = 0; k < c; k += cached_rows) {
                const Panels weights{out.data + out_floats, std::min(cached_rows, c - k), panel, k, column};
                transform(weights, column, column + rounded(columns, lanes));
                for (int point = 0; point < points<M>; ++point)
                    (columns <= lanes ? multiply_panel<1>
                                      : multiply_panel<2>)(int(last - first), weights.rows, in.at(point, 0) + k,
                                                           size_t(in.row_stride), 1, weights.at(point, 0), panel,
                                                           out.at(point, 0), panel, k > 0, in.next(point, k, fetched),
                                                           Ahead{});
            }
            write_tiles(out, tiling, d, column, columns, first, last, to, add);
        };
        over_slabs(tiles, slab, d, thread, w.threads, read, take_panel);
    });
}

/// Multiplies one block at all points: to = from * weights.
template <int M> void multiply(const Block<M>& from, const Panels& weights, const Block<M>& to, int tiles) {
    for (int point = 0; point < points<M>; ++point)
        for (int p = 0; p < weights.count(); ++p) {
            const bool half = weights.columns - p * panel <= lanes;
            (half ? multiply_panel<1> : multiply_panel<2>)(tiles, weights.rows, from.at(point, 0),
                                                           size_t(from.row_stride), 1, weights.at(point, p), panel,
                                                           to.at(point, 0) + p * panel, size_t(to.row_stride), false,
                                                           Ahead{}, Ahead{});
        }
}

template <int M, class E, class Transform>
void convolve_by_tiles(const Winograd& w, const E* from, int c, E* to, int d, bool add, float* workspace,
                       Transform transform) {
    const Tiling<M> tiling(w.n, w.h, w.w);
    const int64_t tiles = tiling.count(), block = block_tiles<M>(c, d);
    const Panels weights{workspace, c, d};
    float* const blocks = workspace + transformed_floats<M>(c, d);
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

template <int M, class E, class Transform>
void convolve(const Winograd& w, const E* from, int c, E* to, int d, bool add, float* workspace, Transform transform) {
    const bool panels = by_panels<M>(Tiling<M>(w.n, w.h, w.w).count(), w.threads, c, d);
    (panels ? convolve_by_panels<M, E, Transform> : convolve_by_tiles<M, E, Transform>)(w, from, c, to, d, add,
                                                                                        workspace, transform);
}

/// Sums of weight gradients at the points: [points][outputs, from `first` on][32 columns].
struct GradientSum {
    float* data;
    int first, outputs;
    size_t stride() const { return point_stride(outputs, panel); }  // between points
    const float* at(int point, int o, int column) const {
        return data + point * stride() + size_t(o - first) * panel + column;
    }
};

/// Multiplies a slab's gradients with columns [column, column + count) of the inputs that they saw.
template <int M>
void multiply_gradients(const Block<M>& gradients, const Block<M>& seen, int column, int count, int tiles,
                        const GradientSum& to) {
    for (int point = 0; point < points<M>; ++point)
        (count <= lanes ? multiply_panel<1> : multiply_panel<2>)(to.outputs, tiles, gradients.at(point, 0) + to.first,
                                                                 1, size_t(gradients.row_stride),
                                                                 seen.at(point, 0) + column, size_t(seen.row_stride),
                                                                 to.data + point * to.stride(), panel, false,
                                                                 seen.next(point, column, panel / lanes),
                                                                 gradients.next(point, to.first, cached_rows / lanes));
}

/// Transforms a panel's sums of output o, and writes them to dweight [out, 3, 3, in], or adds them
/// if `add`. The panel has the inputs [begin, begin + count).
template <int M>
void write_weight_gradient(int o, int begin, int count, GradientSum sum, int in, float* dweight, bool add) {
    constexpr size_t outputs_ahead = 8;
    for (int i = 0; i < count; i += lanes) {
        float* const to = dweight + size_t(o) * 9 * in + begin + i;
        const __mmask16 mask = mask_of(count - i);
        for (int tap = 0; tap < 9; ++tap) fetch_ahead(to + (outputs_ahead * 9 + tap) * in);
        const auto put = [&](int y, int x, Vector g) {
            float* const tap = to + size_t(y * 3 + x) * in;
            store(tap, mask, add ? g + load(tap, mask) : g);
        };
        both_ways<window<M>, 3, Transforms<M>::weight_gradient>(
            [&](int y, int x) { return _mm512_load_ps(sum.at(y * window<M> + x, o, i)); }, put);
    }
}

template <int M, class E>
void gradient_of_weights(const Winograd& w, const E* x, const E* dy, float* dweight, float* workspace) {
    const Tiling<M> tiling(w.n, w.h, w.w);
    const int64_t tiles = tiling.count(), slab = slab_of<M>(tiles, w.threads, w.in, w.out);
    const int count = slabs(tiles, w.threads);
    const auto gradient_of = [&](int of) { return of == 0 ? dweight : workspace + (of - 1) * gradient_floats(w); };
    const size_t seen_floats = Block<M>::floats(slab, w.in), floats = seen_floats + Block<M>::floats(slab, w.out);
    float* const blocks = workspace + (count - 1) * gradient_floats(w);
    on_threads(w.threads, [&](int thread) {
        const int mine = thread % count;
        const Block<M> seen(blocks + mine * floats, slab, w.in), gradients(seen.data + seen_floats, slab, w.out);
        float* const sums = blocks + count * floats + thread * points<M> * point_stride(cached_rows, panel);
        const auto read = [&](int64_t first, int64_t last, int64_t place) {
            read_tiles<M, window<M>, Transforms<M>::image>(x, tiling, w.in, 1, first, last, seen.from(place));
            read_tiles<M, M, Transforms<M>::gradient>(dy, tiling, w.out, 0, first, last, gradients.from(place));
        };
        const auto take_panel = [&](int column, int columns, int64_t first, int64_t last) {
            const bool add = first > tiles * thread / w.threads;
            for (int o = 0; o < w.out; o += cached_rows) {
                const GradientSum sum{sums, o, std::min(cached_rows, w.out - o)};
                multiply_gradients(gradients, seen, column, columns, int(last - first), sum);
                for (int of = o; of < o + sum.outputs; ++of)
                    write_weight_gradient<M>(of, column, columns, sum, w.in, gradient_of(mine), add);
            }
        };
        over_slabs(tiles, slab, w.in, thread, w.threads, read, take_panel);
#pragma omp barrier
        const size_t all = size_t(9) * w.in * w.out, end = all * (thread + 1) / w.threads;
        for (int other = 1; other < count; ++other)
            for (size_t i = all * thread / w.threads; i < end; ++i) dweight[i] += gradient_of(other)[i];
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
        gradient_of_weights<M>(*this, x, dy, dweight, static_cast<float*>(workspace));
    });
}

template void Winograd::forward(const float*, const float*, float*, void*) const;
template void Winograd::forward(const bf16*, const float*, bf16*, void*) const;
template void Winograd::data_gradient(const float*, const float*, float*, bool, void*) const;
template void Winograd::data_gradient(const bf16*, const float*, bf16*, bool, void*) const;
template void Winograd::weight_gradient(const float*, const float*, float*, void*) const;
template void Winograd::weight_gradient(const bf16*, const bf16*, float*, void*) const;

CONVOY_AVX512_END  // after the instantiations, because they are compiled for this region's target

}  // namespace convoy::cpu
