// Winograd's tiles: their places in an image, the transforms of F(M x M, 3x3) in one and two
// dimensions, and the passes that read and write a tensor's tiles. An output tile is M x M pixels.
#pragma once
#include <array>

#include "backend/cpu/avx512.h"

namespace convoy::cpu {
namespace {

/// The interpolation points: p and -p for each of these, 0 if M is even, and infinity. In float
/// they have less error than 0, +-1, +-2, +-1/2, ...
template <int M> constexpr int points_of = 0;
template <> constexpr std::array points_of<4>{5. / 8, 3. / 2};
template <> constexpr std::array points_of<7>{5. / 16, 11. / 16, 9. / 8, 7. / 4};
template <> constexpr std::array points_of<8>{3. / 8, 3. / 4, 5. / 4, 15. / 8};

/// Number of pixels along a line that M outputs depend on. There are as many points along it.
template <int M> constexpr int window = M + 2;
/// Number of points of a tile.
template <int M> constexpr int points = window<M> * window<M>;

/// The matrices of a block of tiles, one per point: [points][tiles][channels]. Channels are rounded
/// up to vectors. If rows would be multiples of 2 KiB apart, there is one more vector, because the
/// L1 cache keeps few such lines.
template <int M> struct Block {
    float* data;
    int row_stride;  // floats from one tile to the next
    // floats between points. They are mostly no multiple of 4 KiB, because otherwise all points
    // would share the same lines of the L1 cache
    size_t stride;
    static int row_of(int c) { return rounded(c, lanes) + (rounded(c, lanes) % 512 == 0 ? lanes : 0); }
    static size_t stride_of(int64_t tiles, int c) { return size_t(tiles) * row_of(c) + lanes; }
    Block(float* at, int64_t tiles, int c) : data(at), row_stride(row_of(c)), stride(stride_of(tiles, c)) {}
    static size_t floats(int64_t tiles, int c) { return points<M> * stride_of(tiles, c); }
    float* at(int point, int64_t tile) const { return data + point * stride + size_t(tile) * row_stride; }
    /// Returns the part of the block that begins at a tile.
    Block from(int64_t tile) const {
        Block rest = *this;
        rest.data = at(0, tile);
        return rest;
    }
    /// Returns the lines to prefetch for the next point: `count` of each tile, from a channel on.
    Ahead next(int point, int channel, int count) const {
        return {at(point + 1, 0) + channel, size_t(row_stride), std::min(count, (row_stride - channel) / lanes)};
    }
};

template <int M> struct Tiling {
    int n, h, w, down, across;
    Tiling(int n_, int h_, int w_) : n(n_), h(h_), w(w_), down((h_ + M - 1) / M), across((w_ + M - 1) / M) {}
    int64_t count() const { return int64_t(n) * down * across; }
    struct Place {
        int64_t image;
        int y, x;  // position of the tile's first output
    };
    Place place(int64_t tile) const {
        const int in_image = int(tile % (down * across));
        return {tile / (down * across), in_image / across * M, in_image % across * M};
    }
};

CONVOY_AVX512_BEGIN

/// Returns c[0] v[0] + c[1] v[2] + c[2] v[4] + ...
template <size_t N> inline Vector every_other(const std::array<float, N>& c, const Vector* v) {
    Vector sum = c[0] * v[0];
#pragma GCC unroll 8
    for (size_t j = 1; j < N; ++j) sum += c[j] * v[2 * j];
    return sum;
}

/// The one-dimensional transforms of Toom and Cook. In two dimensions they are applied to columns,
/// then to rows. P(x) is the product of (x - p) over the finite points. For each point p, an
/// image's values are multiplied by the coefficients of P(x) / (x - p), and added. Weights are the
/// coefficients of a polynomial, which is evaluated at p and divided by P'(p). The points p and -p
/// share the even and the odd part. Values are in the order 0 (if it is a point), p, -p, the next
/// p, ..., infinity.
template <int M> struct Transforms {
    static constexpr int pairs = int(points_of<M>.size()), zero = M % 2 == 0, n = window<M>;
    static_assert(zero + 2 * pairs + 1 == n);

    template <size_t N> using OfPairs = std::array<std::array<float, N>, pairs>;
    static constexpr double power(int k, int exponent) {
        return exponent == 0 ? 1 : points_of<M>[k] * power(k, exponent - 1);
    }
    /// Returns the product of (x^2 - p^2) over N pairs (all, or all but one) in powers of x^2.
    template <size_t N> static constexpr std::array<float, N + 1> product(int left_out) {
        std::array<double, N + 2> c{0, 1};  // c[j + 1] belongs to power j
        size_t degree = 0;
        for (int k = 0; k < pairs; ++k)
            if (k != left_out) {
                ++degree;
                for (size_t j = degree + 1; j > 0; --j) c[j] = c[j - 1] - power(k, 2) * c[j];
            }
        std::array<float, N + 1> rounded{};
        for (size_t j = 0; j <= N; ++j) rounded[j] = float(c[j + 1]);
        return rounded;
    }
    static constexpr std::array<float, pairs + 1> all = product<pairs>(-1);
    static constexpr OfPairs<pairs> others = [] {
        OfPairs<pairs> c{};
        for (int k = 0; k < pairs; ++k) c[k] = product<pairs - 1>(k);
        return c;
    }();
    /// p^0, p^2, ... or p^1, p^3, ..., below p^M.
    template <int first>
    static constexpr auto powers = [] {
        OfPairs<(M + 1 - first) / 2> c{};
        for (int k = 0; k < pairs; ++k)
            for (size_t j = 0; j < c[k].size(); ++j) c[k][j] = float(power(k, first + 2 * int(j)));
        return c;
    }();
    /// p^0, p^1, p^2, divided by P'(p).
    static constexpr OfPairs<3> weights_at = [] {
        OfPairs<3> c{};
        for (int k = 0; k < pairs; ++k) {
            double slope = 2 * power(k, 1 + zero);
            for (int other = 0; other < pairs; ++other)
                if (other != k) slope *= power(k, 2) - power(other, 2);
            for (int j = 0; j < 3; ++j) c[k][j] = float(power(k, j) / slope);
        }
        return c;
    }();
    static constexpr float weight_at_zero = 1 / all[0];

    /// Writes a polynomial's values at a point and its negative, from its even and odd part.
    static void put(Vector even, Vector odd, int k, Vector* values) {
        values[zero + 2 * k] = even + odd;
        values[zero + 2 * k + 1] = even - odd;
    }

    /// Computes B^T d: n pixels at the points. The weights at p and -p have the same factor.
    /// Without the point 0, P'(p) and P'(-p) differ in their signs, so that the value at -p is
    /// negated here.
    static void image(const Vector* d, Vector* v) {
#pragma GCC unroll 4
        for (int k = 0; k < pairs; ++k) {
            const Vector odd = every_other(others[k], d + zero + 1),
                         even = float(power(k, 1)) * every_other(others[k], d + zero);
            v[zero + 2 * k] = odd + even;
            v[zero + 2 * k + 1] = zero ? odd - even : even - odd;
        }
        if (zero) v[0] = every_other(all, d);
        v[n - 1] = every_other(all, d + zero);
    }

    /// Computes G g: three weights at the points.
    static void weight(const Vector* g, Vector* u) {
#pragma GCC unroll 4
        for (int k = 0; k < pairs; ++k)
            put(weights_at[k][0] * g[0] + weights_at[k][2] * g[2], weights_at[k][1] * g[1], k, u);
        if (zero) u[0] = weight_at_zero * g[0];
        u[n - 1] = g[2];
    }

    /// Computes A^T m: M outputs from the points.
    static void output(const Vector* m, Vector* y) {
        Vector parts[2][pairs];
#pragma GCC unroll 4
        for (int k = 0; k < pairs; ++k) {
            parts[0][k] = m[zero + 2 * k] + m[zero + 2 * k + 1];
            parts[1][k] = m[zero + 2 * k] - m[zero + 2 * k + 1];
        }
#pragma GCC unroll 8
        for (int i = 0; i < M; ++i) {
            Vector sum = i == M - 1 ? m[n - 1] : _mm512_setzero_ps();
            if (i == 0 && zero) sum = m[0];
#pragma GCC unroll 4
            for (int k = 0; k < pairs; ++k)
                sum += (i % 2 == 0 ? powers<0>[k][i / 2] : powers<1>[k][i / 2]) * parts[i % 2][k];
            y[i] = sum;
        }
    }

    /// Computes A y, the transpose of the output's transform: M gradients at the points.
    static void gradient(const Vector* y, Vector* m) {
#pragma GCC unroll 4
        for (int k = 0; k < pairs; ++k) put(every_other(powers<0>[k], y), every_other(powers<1>[k], y + 1), k, m);
        if (zero) m[0] = y[0];
        m[n - 1] = y[M - 1];
    }

    /// Computes G^T u, the transpose of the weights' transform.
    static void weight_gradient(const Vector* u, Vector* g) {
        g[0] = zero ? weight_at_zero * u[0] : _mm512_setzero_ps();
        g[1] = _mm512_setzero_ps();
        g[2] = u[n - 1];
#pragma GCC unroll 4
        for (int k = 0; k < pairs; ++k) {
            const Vector even = u[zero + 2 * k] + u[zero + 2 * k + 1], odd = u[zero + 2 * k] - u[zero + 2 * k + 1];
            g[0] += weights_at[k][0] * even;
            g[1] += weights_at[k][1] * odd;
            g[2] += weights_at[k][2] * even;
        }
    }
};

/// Applies a transform from `From` to `To` values in both dimensions. `in(row, column)` reads the
/// [From][From] inputs; `out(row, column, value)` receives the results.
template <int From, int To, void (*transform)(const Vector*, Vector*), class In, class Out>
inline void both_ways(In in, Out out) {
    Vector half[To][From];
#pragma GCC unroll 10
    for (int j = 0; j < From; ++j) {
        Vector column[From], result[To];
#pragma GCC unroll 10
        for (int i = 0; i < From; ++i) column[i] = in(i, j);
        transform(column, result);
#pragma GCC unroll 10
        for (int i = 0; i < To; ++i) half[i][j] = result[i];
    }
#pragma GCC unroll 10
    for (int i = 0; i < To; ++i) {
        Vector result[To];
        transform(half[i], result);
#pragma GCC unroll 10
        for (int j = 0; j < To; ++j) out(i, j, result[j]);
    }
}

/// Transforms tiles [first, last) of x [n, h, w, c] into `to`. A tile is read through a window of
/// Size x Size pixels. The window begins `before` pixels above and left of the tile.
template <int M, int Size, void (*transform)(const Vector*, Vector*), class E>
void read_tiles(const E* x, const Tiling<M>& tiling, int c, int before, int64_t first, int64_t last,
                const Block<M>& to) {
    alignas(64) static constexpr E zeros[lanes] = {};
    for (int64_t tile = first; tile < last; ++tile) {
        const auto at = tiling.place(tile);
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
            both_ways<Size, window<M>, transform>(
                [&](int i, int j) { return load(from[i][j] + (inside[i][j] ? channel : 0), mask); },
                [&](int i, int j, Vector v) { _mm512_store_ps(out + (i * window<M> + j) * to.stride + channel, v); });
        }
    }
}

/// Writes (or adds, if `add`) the outputs of tiles [first, last) and channels [begin, begin +
/// count) to y [n, h, w, c]. `from` begins with channel `begin` of tile `first`.
template <int M, class E>
void write_tiles(const Block<M>& from, const Tiling<M>& tiling, int c, int begin, int count, int64_t first,
                 int64_t last, E* y, bool add) {
    constexpr int n = window<M>;
    for (int64_t tile = first; tile < last; ++tile) {
        const auto at = tiling.place(tile);
        E* corner = y + ((at.image * tiling.h + at.y) * tiling.w + at.x) * c + begin;
        const int rows = std::min(M, tiling.h - at.y), columns = std::min(M, tiling.w - at.x);
        const float* in = from.at(0, tile - first);
        for (int channel = 0; channel < count; channel += lanes) {
            const __mmask16 mask = mask_of(count - channel);
            Vector half[M][n];
#pragma GCC unroll 10
            for (int j = 0; j < n; ++j) {
                Vector column[n], result[M];
#pragma GCC unroll 10
                for (int i = 0; i < n; ++i) column[i] = _mm512_load_ps(in + (i * n + j) * from.stride + channel);
                Transforms<M>::output(column, result);
#pragma GCC unroll 8
                for (int i = 0; i < M; ++i) half[i][j] = result[i];
            }
            for (int i = 0; i < rows; ++i) {
                Vector result[M];
                Transforms<M>::output(half[i], result);
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
