// Passes over the rows (pixels) of an NHWC tensor, and sums over them per channel. The order of a
// sum depends only on the number of threads.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "base/bf16.h"

// Compiles a function of plain loops for AVX-512 as well, and chooses a version when the program
// starts. Not for clang, nor with sanitizers, which do not support that.
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONVOY_WIDE
#else
#define CONVOY_WIDE __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif

namespace convoy::cpu {

/// Returns true if this processor has AVX-512 (F, BW, VL, DQ) and oneDNN may use it.
/// ONEDNN_MAX_CPU_ISA=AVX2 restricts Convoy's own loops to AVX2 too, except those marked
/// CONVOY_WIDE. Defined in primitives.cpp.
bool has_avx512();

constexpr int64_t run_rows = 32;  // rows summed in float before their sum is added to a double

/// Calls body(E{}) with E float or bf16, the types of values and their gradients on a CPU.
template <class Body> void with_type(DType type, Body body) {
    if (type == DType::bf16) return body(bf16{});
    require(type == DType::f32, "a value on a CPU is f32 or bf16");
    body(float{});
}

/// Calls body(thread, first row, last row) on every thread. The split depends only on the number of
/// threads.
template <class Body> void over_rows(int threads, int64_t rows, Body body) {
#pragma omp parallel num_threads(threads)
    {
        const int t = omp_get_thread_num();
        body(t, rows * t / threads, rows * (t + 1) / threads);
    }
}

/// Scratch of one thread: double totals [2][c], float sums [2][c], one float row [c].
struct ThreadScratch {
    double* totals;
    float *s, *q, *row;
    static size_t doubles(int c) { return 4 * size_t(c); }
    ThreadScratch(double* base, int thread, int c)
        : totals(base + thread * doubles(c)), s(reinterpret_cast<float*>(totals + 2 * c)), q(s + c), row(q + c) {}
};

/// Computes two sums per channel. `add_rows(first, last, scratch)` adds a few rows to the float
/// sums s and q, or to the double totals. The totals over all rows are written to sums [2][c].
template <class AddRows>
void sum_rows(int threads, int64_t rows, int c, double* scratch, double* sums, AddRows add_rows) {
    over_rows(threads, rows, [&](int t, int64_t first, int64_t last) {
        const ThreadScratch mine(scratch, t, c);
        double* total = mine.totals;
        float* s = mine.s;
        std::fill_n(total, 2 * c, 0.0);
        for (int64_t r = first; r < last; r += run_rows) {
            std::fill_n(s, 2 * c, 0.0f);
            add_rows(r, std::min(r + run_rows, last), mine);
#pragma omp simd
            for (int i = 0; i < 2 * c; ++i) total[i] += double(s[i]);
        }
    });
    std::fill_n(sums, 2 * c, 0.0);
    for (int t = 0; t < threads; ++t)
        for (int i = 0; i < 2 * c; ++i) sums[i] += ThreadScratch(scratch, t, c).totals[i];
}

}  // namespace convoy::cpu
