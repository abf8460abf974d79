// Passes over the rows (pixels) of an NHWC tensor, and sums over them by channel. The order of a sum depends only on the number
// of threads.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace convoy {

constexpr int64_t run_rows = 32;  // rows summed in float before they go to double

/// Calls body(thread, first row, last row) on every thread; the split depends only on the number of threads.
template <class Body> void over_rows(int threads, int64_t rows, Body body) {
#pragma omp parallel num_threads(threads)
    {
        const int t = omp_get_thread_num();
        body(t, rows * t / threads, rows * (t + 1) / threads);
    }
}

/// A thread's own scratch: double totals [2][c], float sums [2][c], one float row [c].
struct ThreadScratch {
    double* totals;
    float *s, *q, *row;
    static size_t doubles(int c) { return 4 * size_t(c); }
    ThreadScratch(double* base, int thread, int c)
        : totals(base + thread * doubles(c)), s(reinterpret_cast<float*>(totals + 2 * c)), q(s + c), row(q + c) {}
};

/// Two sums a channel. `add_row(r, scratch)` adds row r into the float sums s and q; the totals of all rows land in
/// sums [2][c].
template <class AddRow> void sum_rows(int threads, int64_t rows, int c, double* scratch, double* sums, AddRow add_row) {
    over_rows(threads, rows, [&](int t, int64_t first, int64_t last) {
        const ThreadScratch mine(scratch, t, c);
        double* total = mine.totals;
        float* s = mine.s;
        std::fill_n(total, 2 * c, 0.0);
        for (int64_t r0 = first; r0 < last; r0 += run_rows) {
            std::fill_n(s, 2 * c, 0.0f);
            for (int64_t r = r0; r < std::min(r0 + run_rows, last); ++r) add_row(r, mine);
#pragma omp simd
            for (int i = 0; i < 2 * c; ++i) total[i] += double(s[i]);
        }
    });
    std::fill_n(sums, 2 * c, 0.0);
    for (int t = 0; t < threads; ++t)
        for (int i = 0; i < 2 * c; ++i) sums[i] += ThreadScratch(scratch, t, c).totals[i];
}

}  // namespace convoy
