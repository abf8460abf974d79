#include "backend/cpu/winograd.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace convoy::cpu {
namespace {

constexpr int points = 36;  // of a 6x6 tile
constexpr int lanes = 16;   // floats of a vector
constexpr int panel = 32;   // columns that the matrix kernel takes at once

constexpr int rounded(int c, int to) { return (c + to - 1) / to * to; }

/// Matrices of a block of tiles, one a point: [36][tiles][channels, rounded up to vectors].
struct Block {
    float* data;
    int channels;
    size_t stride;  // between points; off a multiple of 4 KiB, or all points fall on the same lines of the first cache
    static size_t stride_of(int64_t tiles, int c) { return size_t(tiles) * rounded(c, lanes) + lanes; }
    Block(float* at, int64_t tiles, int c) : data(at), channels(rounded(c, lanes)), stride(stride_of(tiles, c)) {}
    static size_t floats(int64_t tiles, int c) { return points * stride_of(tiles, c); }
    float* at(int point, int64_t tile) const { return data + point * stride + size_t(tile) * channels; }
};

/// Tiles that a thread transforms together: of few channels so many that a block stays in the second cache, of many so many that reading
/// the weights again for each block does not show.
int block_tiles(int c, int d) { return c + d <= 128 ? 28 : c + d <= 256 ? 56 : 112; }

struct Tiling {
    int n, h, w, down, across;
    Tiling(int n_, int h_, int w_) : n(n_), h(h_), w(w_), down((h_ + 3) / 4), across((w_ + 3) / 4) {}
    int64_t count() const { return int64_t(n) * down * across; }
    struct Place {
        int64_t image;
        int y, x;  // of the tile's first output
    };
    Place place(int64_t tile) const {
        const int in_image = int(tile % (down * across));
        return {tile / (down * across), in_image / across * 4, in_image % across * 4};
    }
};

size_t transformed_floats(int rows, int columns) { return size_t(points) * rows * rounded(columns, panel); }

// With few tiles the weights are the larger part: then a thread takes some of the columns (outputs; inputs in the weight gradient) of all
// tiles instead of all columns of some tiles, transforms their weights a panel at a time, and no two threads transform the same. Where that
// begins to pay was measured.
bool convolves_by_columns(const Tiling& tiling, int threads) { return tiling.count() <= 32 * threads; }
bool gradient_by_columns(const Tiling& tiling, int threads) { return tiling.count() <= 16 * threads; }

}  // namespace

bool Winograd::worthwhile() const {
#ifdef __clang__
    return false;  // it does not take the pragma below
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma") && in >= 16 && out >= 16 && h >= 3 && w >= 3;
#endif
}

size_t Winograd::workspace_bytes() const {
    const Tiling tiling(n, h, w);
    const int64_t tiles = tiling.count(), block = std::max(56, block_tiles(in, out));
    const size_t blocks = size_t(threads) * (Block::floats(block, in) + Block::floats(block, out));
    const size_t all_tiles = Block::floats(tiles, in) + Block::floats(tiles, out);
    const size_t own_columns = size_t(threads) * (points * size_t(std::max(in, out)) * panel + Block::floats(tiles, panel));
    const size_t convolution = convolves_by_columns(tiling, threads)
                                   ? all_tiles + own_columns
                                   : blocks + std::max(transformed_floats(in, out), transformed_floats(out, in));
    const size_t gradient =
        gradient_by_columns(tiling, threads) ? all_tiles + own_columns : blocks + size_t(threads) * transformed_floats(out, in);
    return sizeof(float) * std::max(convolution, gradient);
}

#ifndef __clang__
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")

namespace {

constexpr float a = 0.625f, b = 1.5f;  // the points
constexpr float a2 = a * a, b2 = b * b, a3 = a * a2, b3 = b * b2;
constexpr float n0 = 1 / (a2 * b2), na = 1 / (2 * a2 * (a2 - b2)), nb = 1 / (2 * b2 * (b2 - a2));

using Vector = __m512;

inline __mmask16 mask_of(int count) { return count >= lanes ? __mmask16(0xffff) : __mmask16((1u << count) - 1); }

inline Vector load(const float* p, __mmask16 m) { return _mm512_maskz_loadu_ps(m, p); }
inline Vector load(const bf16* p, __mmask16 m) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
}
inline void store(float* p, __mmask16 m, Vector v) { _mm512_mask_storeu_ps(p, m, v); }
inline void store(bf16* p, __mmask16 m, Vector v) {
    const __m512i u = _mm512_castps_si512(v), high = _mm512_srli_epi32(u, 16);
    const __m512i even = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    _mm256_mask_storeu_epi16(p, m, _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, nan, high, _mm512_set1_epi32(0x40))));
}

// The one-dimensional transforms; the two-dimensional ones apply them to columns, then to rows.

/// B^T d: six input pixels at the points.
inline void input_transform(const Vector* d, Vector* v) {
    const Vector even_a = d[4] - b2 * d[2], odd_a = a * (d[3] - b2 * d[1]);
    const Vector even_b = d[4] - a2 * d[2], odd_b = b * (d[3] - a2 * d[1]);
    v[0] = d[4] - (a2 + b2) * d[2] + (a2 * b2) * d[0];
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
    v[5] = d[5] - (a2 + b2) * d[3] + (a2 * b2) * d[1];
}

/// G g: three weights at the points.
inline void weight_transform(const Vector* g, Vector* u) {
    const Vector even_a = na * g[0] + (na * a2) * g[2], odd_a = (na * a) * g[1];
    const Vector even_b = nb * g[0] + (nb * b2) * g[2], odd_b = (nb * b) * g[1];
    u[0] = n0 * g[0];
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = g[2];
}

/// A^T m: four outputs from the points.
inline void output_transform(const Vector* m, Vector* y) {
    const Vector even_a = m[1] + m[2], odd_a = m[1] - m[2], even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = a * odd_a + b * odd_b;
    y[2] = a2 * even_a + b2 * even_b;
    y[3] = a3 * odd_a + b3 * odd_b + m[5];
}

/// A y, the transpose of the output's transform: four gradients at the points.
inline void gradient_transform(const Vector* y, Vector* m) {
    const Vector even_a = y[0] + a2 * y[2], odd_a = a * y[1] + a3 * y[3];
    const Vector even_b = y[0] + b2 * y[2], odd_b = b * y[1] + b3 * y[3];
    m[0] = y[0];
    m[1] = even_a + odd_a;
    m[2] = even_a - odd_a;
    m[3] = even_b + odd_b;
    m[4] = even_b - odd_b;
    m[5] = y[3];
}

/// G^T u, the transpose of the weights' transform.
inline void weight_gradient_transform(const Vector* u, Vector* g) {
    const Vector even_a = na * (u[1] + u[2]), odd_a = (na * a) * (u[1] - u[2]);
    const Vector even_b = nb * (u[3] + u[4]), odd_b = (nb * b) * (u[3] - u[4]);
    g[0] = n0 * u[0] + even_a + even_b;
    g[1] = odd_a + odd_b;
    g[2] = a2 * even_a + b2 * even_b + u[5];
}

/// Applies a transform of `From` values to `To` both ways: in [From][From], read by `in(row, column)`, to `out(row, column, value)`.
template <int From, int To, void (*transform)(const Vector*, Vector*), class In, class Out> inline void both_ways(In in, Out out) {
    Vector half[To][From];
#pragma GCC unroll 6
    for (int j = 0; j < From; ++j) {
        Vector column[From], result[To];
#pragma GCC unroll 6
        for (int i = 0; i < From; ++i) column[i] = in(i, j);
        transform(column, result);
#pragma GCC unroll 6
        for (int i = 0; i < To; ++i) half[i][j] = result[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < To; ++i) {
        Vector result[To];
        transform(half[i], result);
#pragma GCC unroll 6
        for (int j = 0; j < To; ++j) out(i, j, result[j]);
    }
}

/// Tiles [first, last) of x [n, h, w, c] into `to`, seen through a window of Size x Size pixels that begins `before` pixels before the
/// tile.
template <int Size, void (*transform)(const Vector*, Vector*), class E>
void read_tiles(const E* x, const Tiling& tiling, int c, int before, int64_t first, int64_t last, const Block& to) {
    alignas(64) static constexpr E zeros[lanes] = {};
    for (int64_t tile = first; tile < last; ++tile) {
        const Tiling::Place at = tiling.place(tile);
        const E* from[Size][Size];
        bool inside[Size][Size];
        for (int i = 0; i < Size; ++i)
            for (int j = 0; j < Size; ++j) {
                const int row = at.y - before + i, column = at.x - before + j;
                inside[i][j] = row >= 0 && row < tiling.h && column >= 0 && column < tiling.w;
                from[i][j] = inside[i][j] ? x + ((at.image * tiling.h + row) * tiling.w + column) * c : zeros;
            }
        float* out = to.at(0, tile - first);
        for (int channel = 0; channel < c; channel += lanes) {
            const __mmask16 mask = mask_of(c - channel);
            both_ways<Size, 6, transform>([&](int i, int j) { return load(from[i][j] + (inside[i][j] ? channel : 0), mask); },
                                          [&](int i, int j, Vector v) { _mm512_store_ps(out + (i * 6 + j) * to.stride + channel, v); });
        }
    }
}

/// Outputs of tiles [first, last), of channels [begin, begin + count), to y [n, h, w, c]; added to it if `add`. `from` begins with channel
/// `begin` of tile `first`.
template <class E>
void write_tiles(const Block& from, const Tiling& tiling, int c, int begin, int count, int64_t first, int64_t last, E* y, bool add) {
    for (int64_t tile = first; tile < last; ++tile) {
        const Tiling::Place at = tiling.place(tile);
        E* corner = y + ((at.image * tiling.h + at.y) * tiling.w + at.x) * c + begin;
        const int rows = std::min(4, tiling.h - at.y), columns = std::min(4, tiling.w - at.x);
        const float* in = from.at(0, tile - first);
        for (int channel = 0; channel < count; channel += lanes) {
            const __mmask16 mask = mask_of(count - channel);
            Vector half[4][6];
#pragma GCC unroll 6
            for (int j = 0; j < 6; ++j) {
                Vector column[6], result[4];
#pragma GCC unroll 6
                for (int i = 0; i < 6; ++i) column[i] = _mm512_load_ps(in + (i * 6 + j) * from.stride + channel);
                output_transform(column, result);
#pragma GCC unroll 4
                for (int i = 0; i < 4; ++i) half[i][j] = result[i];
            }
            for (int i = 0; i < rows; ++i) {
                Vector result[4];
                output_transform(half[i], result);
                E* to = corner + int64_t(i) * tiling.w * c + channel;
                for (int j = 0; j < columns; ++j, to += c) store(to, mask, add ? result[j] + load(to, mask) : result[j]);
            }
        }
    }
}

/// c [R][32 or 16 columns] = (or +=) sum over k of a(row, k) b(k, column): a by its two strides, b with `b_stride` between k.
template <int R, int V>
void multiply_rows(int k_count, const float* __restrict a_, size_t a_row, size_t a_k, const float* __restrict b_, size_t b_stride,
                   float* __restrict c_, size_t c_stride, bool add) {
    Vector sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sum[r][v] = add ? _mm512_loadu_ps(c_ + r * c_stride + v * lanes) : _mm512_setzero_ps();
    for (int k = 0; k < k_count; ++k) {
        Vector row[V];
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) row[v] = _mm512_load_ps(b_ + k * b_stride + v * lanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
            const Vector x = _mm512_set1_ps(a_[r * a_row + k * a_k]);
#pragma GCC unroll 2
            for (int v = 0; v < V; ++v) sum[r][v] = _mm512_fmadd_ps(x, row[v], sum[r][v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) _mm512_store_ps(c_ + r * c_stride + v * lanes, sum[r][v]);
}

template <int V>
void multiply_panel(int rows, int k_count, const float* a_, size_t a_row, size_t a_k, const float* b_, size_t b_stride, float* c_,
                    size_t c_stride, bool add) {
    using Kernel = void (*)(int, const float*, size_t, size_t, const float*, size_t, float*, size_t, bool);
    static constexpr Kernel kernels[] = {nullptr,
                                         multiply_rows<1, V>,
                                         multiply_rows<2, V>,
                                         multiply_rows<3, V>,
                                         multiply_rows<4, V>,
                                         multiply_rows<5, V>,
                                         multiply_rows<6, V>,
                                         multiply_rows<7, V>,
                                         multiply_rows<8, V>,
                                         multiply_rows<9, V>,
                                         multiply_rows<10, V>,
                                         multiply_rows<11, V>,
                                         multiply_rows<12, V>,
                                         multiply_rows<13, V>,
                                         multiply_rows<14, V>};
    constexpr int most = 14;
    for (int left = rows; left > 0;) {  // the last two runs share what is left, so that none is short
        const int now = left >= 2 * most || left <= most ? std::min(left, most) : (left + 1) / 2;
        kernels[now](k_count, a_, a_row, a_k, b_, b_stride, c_, c_stride, add);
        a_ += now * a_row;
        c_ += now * c_stride;
        left -= now;
    }
}

/// Transformed weights in panels: [36][panel][rows][32 columns]; the last panel is as wide, its last columns zero.
struct Panels {
    float* data;
    int rows, columns;
    int count() const { return rounded(columns, panel) / panel; }
    size_t stride() const { return size_t(count()) * rows * panel; }  // between points
    float* at(int point, int p) const { return data + point * stride() + size_t(p) * rows * panel; }
};

/// Calls body(thread) on all threads.
template <class Body> void on_threads(int threads, Body body) {
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num());
}

/// Columns [begin, end) of the transformed weights, rows in and columns out; `to` begins with column `origin`. Vectors along the outputs
/// are gathered.
void transform_weights(const float* weight, int in, int out, const Panels& to, int origin, int begin, int end) {
    const __m512i steps =
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(9 * in));
    const size_t stride = to.stride();
    for (int o = begin; o < end; o += lanes) {
        const __mmask16 mask = o < out ? mask_of(out - o) : __mmask16(0);
        for (int i = 0; i < in; ++i) {
            const float* from = weight + size_t(o) * 9 * in + i;
            float* const at = to.at(0, (o - origin) / panel) + size_t(i) * panel + (o - origin) % panel;
            both_ways<3, 6, weight_transform>(
                [&](int y, int x) { return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, steps, from + (y * 3 + x) * in, 4); },
                [&](int y, int x, Vector u) { _mm512_store_ps(at + (y * 6 + x) * stride, u); });
        }
    }
}

/// The same of the mirrored kernel, rows out and columns in.
void transform_mirrored_weights(const float* weight, int in, int out, const Panels& to, int origin, int begin, int end) {
    const size_t stride = to.stride();
    for (int o = 0; o < out; ++o)
        for (int i = begin; i < end; i += lanes) {
            const __mmask16 mask = i < in ? mask_of(in - i) : __mmask16(0);
            const float* from = weight + size_t(o) * 9 * in + i;
            float* const at = to.at(0, (i - origin) / panel) + size_t(o) * panel + (i - origin) % panel;
            both_ways<3, 6, weight_transform>([&](int y, int x) { return load(from + ((2 - y) * 3 + 2 - x) * in, mask); },
                                              [&](int y, int x, Vector u) { _mm512_store_ps(at + (y * 6 + x) * stride, u); });
        }
}

/// One block of products at all points: to = from * weights.
void multiply(const Block& from, const Panels& weights, const Block& to, int tiles) {
    for (int point = 0; point < points; ++point)
        for (int p = 0; p < weights.count(); ++p) {
            const bool half = to.channels - p * panel < panel;
            (half ? multiply_panel<1> : multiply_panel<2>)(tiles, weights.rows, from.at(point, 0), size_t(from.channels), 1,
                                                           weights.at(point, p), panel, to.at(point, 0) + p * panel, size_t(to.channels),
                                                           false);
        }
}

/// Calls body(panel's first column, its columns) for this thread's share of the columns.
template <class Body> void over_panels(int columns, int thread, int threads, Body body) {
    const int vectors = rounded(columns, lanes) / lanes, end = vectors * (thread + 1) / threads;
    for (int v = vectors * thread / threads; v < end; v += 2) body(v * lanes, std::min(std::min(v + 2, end) * lanes, columns) - v * lanes);
}

/// The convolution that both forward and the data gradient are: `from` [n, h, w, c] to `to` [n, h, w, d]. `transform(panels, origin, begin,
/// end)` fills columns of the transformed weights.
template <class E, class Transform>
void convolve(const Winograd& w, const E* from, int c, E* to, int d, bool add, float* workspace, Transform transform) {
    const Tiling tiling(w.n, w.h, w.w);
    const int64_t tiles = tiling.count();
    if (convolves_by_columns(tiling, w.threads)) {
        const Block in(workspace, tiles, c);
        float* const rest = workspace + Block::floats(tiles, c);
        on_threads(w.threads, [&](int thread) {
            const int64_t first = tiles * thread / w.threads;
            read_tiles<6, input_transform>(from, tiling, c, 1, first, tiles * (thread + 1) / w.threads, {in.at(0, first), tiles, c});
            const Panels weights{rest + thread * (size_t(points) * c * panel + Block::floats(tiles, panel)), c, panel};
            const Block out(weights.data + weights.stride() * points, tiles, panel);
#pragma omp barrier
            over_panels(d, thread, w.threads, [&](int begin, int count) {
                transform(weights, begin, begin, begin + rounded(count, lanes));
                for (int point = 0; point < points; ++point)
                    (count <= lanes ? multiply_panel<1> : multiply_panel<2>)(int(tiles), c, in.at(point, 0), size_t(in.channels), 1,
                                                                             weights.at(point, 0), panel, out.at(point, 0), panel, false);
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
        transform(weights, 0, vectors * thread / w.threads * lanes, vectors * (thread + 1) / w.threads * lanes);
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

/// sums [36][out][columns] (+)= the products of a block's gradients with columns [0, count) of what they saw.
void multiply_gradients(const Block& gradients, int out, const Block& seen, int column, int count, int tiles, float* sums, int columns,
                        bool add) {
    for (int point = 0; point < points; ++point)
        for (int i = 0; i < count; i += panel)
            (count - i <= lanes ? multiply_panel<1> : multiply_panel<2>)(out, tiles, gradients.at(point, 0), 1, size_t(gradients.channels),
                                                                         seen.at(point, 0) + column + i, size_t(seen.channels),
                                                                         sums + size_t(point) * out * columns + i, size_t(columns), add);
}

/// dweight [out, 3, 3, in], of output o and inputs [begin, begin + count): from sum(point, input - begin).
template <class Sum> void write_weight_gradient(int o, int begin, int count, int in, float* dweight, Sum sum) {
    for (int i = 0; i < count; i += lanes)
        both_ways<6, 3, weight_gradient_transform>(
            [&](int y, int x) { return sum(y * 6 + x, i); },
            [&](int y, int x, Vector g) { store(dweight + size_t(o * 9 + y * 3 + x) * in + begin + i, mask_of(count - i), g); });
}

}  // namespace

template <class E> void Winograd::forward(const E* x, const float* weight, E* y, void* workspace) const {
    convolve(*this, x, in, y, out, false, static_cast<float*>(workspace),
             [&](const Panels& to, int origin, int begin, int end) { transform_weights(weight, in, out, to, origin, begin, end); });
}

template <class E> void Winograd::data_gradient(const E* dy, const float* weight, E* dx, bool add, void* workspace) const {
    convolve(*this, dy, out, dx, in, add, static_cast<float*>(workspace), [&](const Panels& to, int origin, int begin, int end) {
        transform_mirrored_weights(weight, in, out, to, origin, begin, end);
    });
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
            float* const sums = rest + thread * size_t(points) * out * panel;
#pragma omp barrier
            over_panels(in, thread, threads, [&](int begin, int count) {
                multiply_gradients(gradients, out, seen, begin, count, int(tiles), sums, panel, false);
                for (int o = 0; o < out; ++o)
                    write_weight_gradient(o, begin, count, in, dweight,
                                          [&](int point, int i) { return _mm512_load_ps(sums + (size_t(point) * out + o) * panel + i); });
            });
        });
        return;
    }
    const int columns = rounded(in, lanes);
    const int64_t block = std::max(56, block_tiles(in, out));
    const size_t sums = size_t(points) * out * columns;
    on_threads(threads, [&](int thread) {
        float* const mine = base + thread * sums;  // [36][out][columns]
        const Block seen(base + threads * sums + thread * (Block::floats(block, in) + Block::floats(block, out)), block, in);
        const Block gradients(seen.data + Block::floats(block, in), block, out);
        const int64_t begin = tiles * thread / threads, end = tiles * (thread + 1) / threads;
        for (int64_t first = begin; first < end; first += block) {
            const int64_t last = std::min(first + block, end);
            read_tiles<6, input_transform>(x, tiling, in, 1, first, last, seen);
            read_tiles<4, gradient_transform>(dy, tiling, out, 0, first, last, gradients);
            multiply_gradients(gradients, out, seen, 0, in, int(last - first), mine, columns, first > begin);
        }
#pragma omp barrier
        for (int o = out * thread / threads; o < out * (thread + 1) / threads; ++o)
            write_weight_gradient(o, 0, in, in, dweight, [&](int point, int i) {
                const float* at = base + (size_t(point) * out + o) * columns + i;
                Vector sum = _mm512_load_ps(at);
                for (int t = 1; t < threads; ++t) sum += _mm512_load_ps(at + t * sums);
                return sum;
            });
    });
}

#else

template <class E> void Winograd::forward(const E*, const float*, E*, void*) const {
    require(false, "asked first whether it is worthwhile");
}
template <class E> void Winograd::data_gradient(const E*, const float*, E*, bool, void*) const {
    require(false, "asked first whether it is worthwhile");
}
template <class E> void Winograd::weight_gradient(const E*, const E*, float*, void*) const {
    require(false, "asked first whether it is worthwhile");
}

#endif

template void Winograd::forward(const float*, const float*, float*, void*) const;
template void Winograd::forward(const bf16*, const float*, bf16*, void*) const;
template void Winograd::data_gradient(const float*, const float*, float*, bool, void*) const;
template void Winograd::data_gradient(const bf16*, const float*, bf16*, bool, void*) const;
template void Winograd::weight_gradient(const float*, const float*, float*, void*) const;
template void Winograd::weight_gradient(const bf16*, const bf16*, float*, void*) const;

#ifndef __clang__
#pragma GCC pop_options  // behind the instantiations, which take their target from where they stand
#endif

}  // namespace convoy::cpu
