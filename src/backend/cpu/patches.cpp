#include "backend/cpu/patches.h"

#include <algorithm>

#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

template <class E> CONVOY_WIDE void gather_rows(const Patches& p, const E* x, int64_t first, int64_t last, float* to) {
    for (int64_t row = first; row < last; ++row) {
        const int top = int(row / p.w_out % p.h_out) * p.stride - p.pad, left = int(row % p.w_out) * p.stride - p.pad;
        const E* image = x + row / (p.h_out * p.w_out) * p.h * p.w * p.c;
        for (int tap = 0; tap < p.kernel * p.kernel; ++tap, to += p.c) {
            const int at_y = top + tap / p.kernel, at_x = left + tap % p.kernel;
            if (at_y < 0 || at_y >= p.h || at_x < 0 || at_x >= p.w) {
                std::fill_n(to, p.c, 0.0f);
                continue;
            }
            const E* from = image + (int64_t(at_y) * p.w + at_x) * p.c;
#pragma omp simd
            for (int i = 0; i < p.c; ++i) to[i] = to_float(from[i]);
        }
    }
}

template <class E>
CONVOY_WIDE void scatter_pixels(const Patches& p, const float* patches, int64_t first, int64_t last, E* dx, bool add) {
    constexpr int chunk = 64;  // channels summed at the same time
    for (int64_t pixel = first; pixel < last; ++pixel) {
        const int at_y = int(pixel / p.w % p.h) + p.pad, at_x = int(pixel % p.w) + p.pad;
        const int64_t image = pixel / (p.h * p.w);
        for (int begin = 0; begin < p.c; begin += chunk) {
            const int count = std::min(chunk, p.c - begin);
            float sum[chunk] = {};
            for (int tap = 0; tap < p.kernel * p.kernel; ++tap) {
                const int y = at_y - tap / p.kernel, x = at_x - tap % p.kernel;
                if (y < 0 || y % p.stride || y / p.stride >= p.h_out || x < 0 || x % p.stride ||
                    x / p.stride >= p.w_out)
                    continue;
                const float* from = patches +
                                    ((image * p.h_out + y / p.stride) * p.w_out + x / p.stride) * p.columns() +
                                    tap * p.c + begin;
#pragma omp simd
                for (int i = 0; i < count; ++i) sum[i] += from[i];
            }
            E* to = dx + pixel * p.c + begin;
            if (add) {
#pragma omp simd
                for (int i = 0; i < count; ++i) assign(to[i], to_float(to[i]) + sum[i]);
            } else {
#pragma omp simd
                for (int i = 0; i < count; ++i) assign(to[i], sum[i]);
            }
        }
    }
}

}  // namespace

template <class E> void Patches::gather(const E* x, float* patches) const {
    over_rows(threads, rows(), [=, this](int, int64_t first, int64_t last) {
        gather_rows(*this, x, first, last, patches + first * columns());
    });
}

template <class E> void Patches::scatter(const float* patches, E* dx, bool add) const {
    over_rows(threads, int64_t(n) * h * w,
              [=, this](int, int64_t first, int64_t last) { scatter_pixels(*this, patches, first, last, dx, add); });
}

template void Patches::gather(const float*, float*) const;
template void Patches::gather(const bf16*, float*) const;
template void Patches::scatter(const float*, float*, bool) const;
template void Patches::scatter(const float*, bf16*, bool) const;

}  // namespace convoy::cpu
