// Vectors of 16 floats, and GEMMs of small matrices with them. Code between CONVOY_AVX512_BEGIN and
// _END is compiled for AVX-512 whatever the target of the rest, and may run only if has_avx512().
// Only GCC has such a pragma; clang does not.
#pragma once
#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "base/bf16.h"

#define CONVOY_AVX512_BEGIN     \
    _Pragma("GCC push_options") \
        _Pragma("GCC target(\"avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512\")")
#define CONVOY_AVX512_END _Pragma("GCC pop_options")

namespace convoy::cpu {
namespace {

constexpr int lanes = 16;  // floats per vector
constexpr int panel = 32;  // columns that the matrix kernel processes at once

constexpr int rounded(int c, int to) { return (c + to - 1) / to * to; }

/// Calls body(thread) on all threads.
template <class Body> void on_threads(int threads, Body body) {
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num());
}

CONVOY_AVX512_BEGIN

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
    const __m512i nearest =
        _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    _mm256_mask_storeu_epi16(p, m,
                             _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, nan, high, _mm512_set1_epi32(0x40))));
}

/// Prefetches into the L2 cache; the address may lie beyond the end of an array.
inline void fetch_ahead(const float* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1); }

/// Returns, in each quarter of a vector, the first two floats of p and then the first two of q.
/// high_pairs() returns the last two of each.
inline Vector low_pairs(Vector p, Vector q) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(p), _mm512_castps_pd(q)));
}
inline Vector high_pairs(Vector p, Vector q) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(p), _mm512_castps_pd(q)));
}

/// Transposes 16 x 16 floats in place.
inline void transpose(Vector* rows) {
    Vector quads[lanes];  // in each quarter, a transposed block of 4 x 4 floats
    Vector fours[lanes];  // the even or the odd quarters of two vectors of `quads`
#pragma GCC unroll 4
    for (int g = 0; g < lanes; g += 4) {  // transpose 4 x 4 in each quarter
        const Vector a = _mm512_unpacklo_ps(rows[g], rows[g + 1]), b = _mm512_unpackhi_ps(rows[g], rows[g + 1]),
                     c = _mm512_unpacklo_ps(rows[g + 2], rows[g + 3]), d = _mm512_unpackhi_ps(rows[g + 2], rows[g + 3]);
        quads[g] = low_pairs(a, c);
        quads[g + 1] = high_pairs(a, c);
        quads[g + 2] = low_pairs(b, d);
        quads[g + 3] = high_pairs(b, d);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)  // even quarters, then odd ones
#pragma GCC unroll 2
        for (int half = 0; half < lanes; half += 8) {
            fours[half + j] = _mm512_shuffle_f32x4(quads[half + j], quads[half + 4 + j], 0x88);
            fours[half + 4 + j] = _mm512_shuffle_f32x4(quads[half + j], quads[half + 4 + j], 0xdd);
        }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {  // the inputs' even quarters hold columns 0 to 7
        rows[j] = _mm512_shuffle_f32x4(fours[j], fours[8 + j], 0x88);
        rows[8 + j] = _mm512_shuffle_f32x4(fours[j], fours[8 + j], 0xdd);
    }
}

/// Lines of `lanes` floats that will be needed soon, `count` of them for each k. They are
/// prefetched into the L2 cache while the kernel multiplies.
struct Ahead {
    const float* at = nullptr;
    size_t stride = 0;  // from one k to the next
    int count = 0;
    const float* line(int i) const { return at + ptrdiff_t(i) * lanes; }
};

/// Computes c [R][32 or 16 columns] = (or +=) sum over k of a(row, k) b(k, column). `a` has two
/// strides; rows of `b` are b_stride apart. For each k it prefetches one line: the first at
/// `ahead`, the next `ahead_stride` floats further. Prefetched lines may lie beyond the end.
template <int R, int V>
void multiply_rows(int k_count, const float* __restrict a_, size_t a_row, size_t a_k, const float* __restrict b_,
                   size_t b_stride, float* __restrict c_, size_t c_stride, bool add, const float* ahead,
                   size_t ahead_stride) {
    Vector sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v)
            sum[r][v] = add ? _mm512_loadu_ps(c_ + r * c_stride + v * lanes) : _mm512_setzero_ps();
    for (int k = 0; k < k_count; ++k) {
        fetch_ahead(ahead + k * ahead_stride);
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

/// Does the same for any number of rows, in several calls of multiply_rows(). For each k, a
/// call prefetches one cache line. The first calls prefetch `ahead`, and the next ones `then`.
template <int V>
void multiply_panel(int rows, int k_count, const float* a_, size_t a_row, size_t a_k, const float* b_, size_t b_stride,
                    float* c_, size_t c_stride, bool add, const Ahead& ahead, const Ahead& then) {
    using Kernel =
        void (*)(int, const float*, size_t, size_t, const float*, size_t, float*, size_t, bool, const float*, size_t);
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
    int run = 0;
    for (int left = rows; left > 0; ++run) {  // the last two calls split the remaining rows, so that neither has few
        const int now = left >= 2 * most || left <= most ? std::min(left, most) : (left + 1) / 2;
        const bool of_then = run >= ahead.count;
        const Ahead& from = of_then ? then : ahead;
        const int line = of_then ? run - ahead.count : run;
        const bool wanted = line < from.count;
        kernels[now](k_count, a_, a_row, a_k, b_, b_stride, c_, c_stride, add, wanted ? from.line(line) : b_,
                     wanted ? from.stride : 0);
        a_ += now * a_row;
        c_ += now * c_stride;
        left -= now;
    }
}

CONVOY_AVX512_END

}  // namespace
}  // namespace convoy::cpu
