// Winograd's tiles: where they lie in an image, the transforms of F(4x4, 3x3) in one dimension and
// in two, and the passes that read and write the tiles of a tensor.
#pragma once
#include "backend/cpu/avx512.h"

namespace convoy::cpu {
namespace {

constexpr int points = 36;  // of a 6x6 tile

constexpr float a = 0.625f, b = 1.5f;  // the points
constexpr float a2 = a * a, b2 = b * b, a3 = a * a2, b3 = b * b2;
constexpr float n0 = 1 / (a2 * b2), na = 1 / (2 * a2 * (a2 - b2)), nb = 1 / (2 * b2 * (b2 - a2));

/// Matrices of a block of tiles, one a point: [36][tiles][channels, rounded up to vectors].
struct Block {
    float* data;
    int channels;
    // between points; off a multiple of 4 KiB, or all points fall on the same lines of the first
    // cache
    size_t stride;
    static size_t stride_of(int64_t tiles, int c) { return size_t(tiles) * rounded(c, lanes) + lanes; }
    Block(float* at, int64_t tiles, int c) : data(at), channels(rounded(c, lanes)), stride(stride_of(tiles, c)) {}
    static size_t floats(int64_t tiles, int c) { return points * stride_of(tiles, c); }
    float* at(int point, int64_t tile) const { return data + point * stride + size_t(tile) * channels; }
};

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

CONVOY_AVX512_BEGIN

// The one-dimensional transforms; the two-dimensional ones apply them to columns, then to rows.

/// A polynomial's values at a point and its negative, from its even and odd part.
inline void at_both_signs(Vector even, Vector odd, Vector* values) {
    values[0] = even + odd;
    values[1] = even - odd;
}

/// B^T d: six input pixels at the points.
inline void input_transform(const Vector* d, Vector* v) {
    const Vector even_a = d[4] - b2 * d[2], odd_a = a * (d[3] - b2 * d[1]);
    const Vector even_b = d[4] - a2 * d[2], odd_b = b * (d[3] - a2 * d[1]);
    v[0] = d[4] - (a2 + b2) * d[2] + (a2 * b2) * d[0];
    at_both_signs(even_a, odd_a, v + 1);
    at_both_signs(even_b, odd_b, v + 3);
    v[5] = d[5] - (a2 + b2) * d[3] + (a2 * b2) * d[1];
}

/// G g: three weights at the points.
inline void weight_transform(const Vector* g, Vector* u) {
    const Vector even_a = na * g[0] + (na * a2) * g[2], odd_a = (na * a) * g[1];
    const Vector even_b = nb * g[0] + (nb * b2) * g[2], odd_b = (nb * b) * g[1];
    u[0] = n0 * g[0];
    at_both_signs(even_a, odd_a, u + 1);
    at_both_signs(even_b, odd_b, u + 3);
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
    at_both_signs(even_a, odd_a, m + 1);
    at_both_signs(even_b, odd_b, m + 3);
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

/// Applies a transform of `From` values to `To` both ways: in [From][From], read by `in(row,
/// column)`, to `out(row, column, value)`.
template <int From, int To, void (*transform)(const Vector*, Vector*), class In, class Out>
inline void both_ways(In in, Out out) {
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

/// Tiles [first, last) of x [n, h, w, c] into `to`, seen through a window of Size x Size pixels
/// that begins `before` pixels before the tile.
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
            both_ways<Size, 6, transform>(
                [&](int i, int j) { return load(from[i][j] + (inside[i][j] ? channel : 0), mask); },
                [&](int i, int j, Vector v) { _mm512_store_ps(out + (i * 6 + j) * to.stride + channel, v); });
        }
    }
}

/// Outputs of tiles [first, last), of channels [begin, begin + count), to y [n, h, w, c]; added to
/// it if `add`. `from` begins with channel `begin` of tile `first`.
template <class E>
void write_tiles(const Block& from, const Tiling& tiling, int c, int begin, int count, int64_t first, int64_t last,
                 E* y, bool add) {
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
                for (int j = 0; j < columns; ++j, to += c)
                    store(to, mask, add ? result[j] + load(to, mask) : result[j]);
            }
        }
    }
}

CONVOY_AVX512_END

}  // namespace
}  // namespace convoy::cpu
