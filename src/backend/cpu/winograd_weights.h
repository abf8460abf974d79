// Weights in the form that Winograd's GEMMs read: transformed and in panels. Sums of weight
// gradients have the layout of one panel.
#pragma once
#include "backend/cpu/winograd_tiles.h"

namespace convoy::cpu {
namespace {

/// Returns the floats between points, for a matrix of rows x columns per point. Like Block's stride
/// it is mostly no multiple of 4 KiB.
size_t point_stride(int rows, int columns) { return size_t(rows) * columns + lanes; }
template <int M> size_t transformed_floats(int rows, int columns) {
    return points<M> * point_stride(rows, rounded(columns, panel));
}

/// Rows of a panel's transformed weights, or of its sums, that stay in the L2 cache.
constexpr int cached_rows = 64;

CONVOY_AVX512_BEGIN

/// Transformed weights in panels: [points][panel][rows][32 columns]. The last panel is as wide as
/// the others, and its extra columns are zero. The panels are part of a matrix, from its first_row
/// and first_column on.
struct Panels {
    float* data;
    int rows, columns;
    int first_row = 0, first_column = 0;
    int count() const { return rounded(columns, panel) / panel; }
    size_t stride() const { return point_stride(rows, count() * panel); }  // between points
    float* at(int point, int p) const { return data + point * stride() + size_t(p) * rows * panel; }
    /// Returns the address of an element at point 0.
    float* of(int row, int column) const {
        return at(0, (column - first_column) / panel) + size_t(row - first_row) * panel +
               (column - first_column) % panel;
    }
};

/// Transforms columns [begin, end) of the weights; rows are inputs and columns are outputs. Inputs
/// are contiguous in memory, but vectors must run along outputs, so 16 x 16 weights are transposed.
/// Weights and their gradients are read as nine distant parts of 64 or 128 bytes at once. They
/// arrive late unless they are prefetched.
template <int M> void transform_weights(const float* weight, int in, int out, const Panels& to, int begin, int end) {
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
                both_ways<3, window<M>, Transforms<M>::weight>(
                    [&](int y, int x) { return taps[y * 3 + x][i]; },
                    [&](int y, int x, Vector u) { _mm512_store_ps(at + (y * window<M> + x) * stride, u); });
            }
        }
}

/// Does the same for the mirrored kernel; rows are outputs and columns are inputs.
template <int M> void transform_mirrored_weights(const float* weight, int in, const Panels& to, int begin, int end) {
    const size_t stride = to.stride(), rows_ahead = 32;
    for (int o = to.first_row; o < to.first_row + to.rows; ++o)
        for (int i = begin; i < end; i += lanes) {
            const __mmask16 mask = i < in ? mask_of(in - i) : __mmask16(0);
            const float* from = weight + size_t(o) * 9 * in + i;
            float* const at = to.of(o, i);
            for (int tap = 0; tap < 9; ++tap) fetch_ahead(from + (rows_ahead * 9 + tap) * in);
            both_ways<3, window<M>, Transforms<M>::weight>(
                [&](int y, int x) { return load(from + ((2 - y) * 3 + 2 - x) * in, mask); },
                [&](int y, int x, Vector u) { _mm512_store_ps(at + (y * window<M> + x) * stride, u); });
        }
}

CONVOY_AVX512_END

}  // namespace
}  // namespace convoy::cpu
