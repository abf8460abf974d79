// Muon's directions of all matrices together: gradients with Nesterov momentum are scaled to norm
// one, and Newton-Schulz iterations in f32 bring their singular values to about one. One launch
// does one stage of every matrix; blocks beyond a matrix's own blocks end at once. Sums have a
// fixed order, so equal gradients give equal steps. If a step is skipped, stages after the first
// run on old values.
#include <algorithm>

#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

// rows and columns of a GEMM's output per block, and terms that it adds at a time
constexpr int tile = 32;
constexpr int per_thread = 2;  // rows and columns per thread
constexpr int tile_side = tile / per_thread;
static_assert(tile_side * tile_side == block_threads);
constexpr int parts = MuonMatrix::parts;

/// Returns the sum over the block, on every thread. `shared` has room for a value per thread.
__device__ double block_sum(double value, double* shared) {
    shared[threadIdx.x] = value;
    for (int half = block_threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}

struct Source {
    float *weights, *velocity;
    const float* gradients;
    float momentum;
    const Counters* counters;
    const LossScale* loss_scale;
};

/// Sets x to the direction, and advances velocities. Also sums the squares of a part's directions
/// and weights. Grid (parts, matrices).
__global__ void __launch_bounds__(block_threads) directions(Source from, const MuonMatrix* matrices) {
    const MuonMatrix& m = matrices[blockIdx.y];
    if (from.loss_scale && !from.loss_scale->finite) return;
    if (from.counters->step >= m.steps) return;
    const float unscale = from.loss_scale ? 1 / from.loss_scale->scale : 1.0f;
    const int64_t count = int64_t(m.rows) * m.columns, first = count * blockIdx.x / parts,
                  last = count * (blockIdx.x + 1) / parts;
    double of_x = 0, of_w = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += block_threads) {
        const float x =
            muon_direction(from.momentum, from.gradients[m.begin + i] * unscale, from.velocity[m.begin + i]);
        const float w = from.weights[m.begin + i];
        m.x[0][i] = x;
        of_x += double(x) * double(x);
        of_w += double(w) * double(w);
    }
    if (blockIdx.x == 0) {  // arena padding gets no direction, whatever this memory held before
        constexpr auto row = int64_t(stats_elements);
        for (int64_t i = count + threadIdx.x; i < (count + row - 1) / row * row; i += block_threads)
            m.x[0][i] = m.x[1][i] = 0;
    }
    double* shared = shared_memory<double>();
    of_x = block_sum(of_x, shared);
    __syncthreads();
    of_w = block_sum(of_w, shared);
    if (threadIdx.x == 0) {
        m.squares[2 * blockIdx.x] = of_x;
        m.squares[2 * blockIdx.x + 1] = of_w;
    }
}

/// Scales x to norm one, and computes the factor on the weights. Grid (parts, matrices).
__global__ void __launch_bounds__(block_threads) normalise(const MuonMatrix* matrices) {
    const MuonMatrix& m = matrices[blockIdx.y];
    double of_x = 0, of_w = 0;
    for (int p = 0; p < parts; ++p) {
        of_x += m.squares[2 * p];
        of_w += m.squares[2 * p + 1];
    }
    const float unit = float(1 / (sqrt(of_x) + 1e-7));
    const int64_t count = int64_t(m.rows) * m.columns, first = count * blockIdx.x / parts,
                  last = count * (blockIdx.x + 1) / parts;
    for (int64_t i = first + threadIdx.x; i < last; i += block_threads) m.x[0][i] *= unit;
    if (blockIdx.x == 0 && threadIdx.x == 0) *m.rescale = float(sqrt(double(m.rows) / of_w));
}

/// A GEMM: to [rows][columns] = alpha * plus + beta * left * right. Each operand has two strides.
struct Gemm {
    const float *left, *right, *plus;
    float* to;
    int rows, columns, terms;
    int64_t left_row, left_term, right_term, right_column;
    float alpha, beta;
};

enum class Stage { gram, polynomial, next };

/// Returns the GEMM of a stage. gram: A = x x^T on the smaller side. polynomial: B = muon_b A +
/// muon_c A A. next: muon_a x + B x.
__device__ Gemm gemm_of(const MuonMatrix& m, Stage stage, const float* x, float* to) {
    const bool wide = m.rows <= m.columns;
    const int side = wide ? m.rows : m.columns, across = wide ? m.columns : m.rows;
    const int64_t c = m.columns;
    if (stage == Stage::gram) {
        const int64_t along = wide ? c : 1, over = wide ? 1 : c;
        return {x, x, nullptr, m.gram, side, side, across, along, over, over, along, 0, 1};
    }
    if (stage == Stage::polynomial)
        return {m.gram, m.gram, m.gram, m.polynomial, side, side, side, side, 1, side, 1, muon_b, muon_c};
    if (wide) return {m.polynomial, x, x, to, m.rows, m.columns, side, side, 1, c, 1, muon_a, 1};
    return {x, m.polynomial, x, to, m.rows, m.columns, side, c, 1, side, 1, muon_a, 1};
}

/// Reads a tile x tile part of an operand into shared memory [tile][tile + 1], with zeros beyond
/// its edges. Neighbouring threads read along the dimension that is contiguous.
__device__ void read_tile(const float* from, int row, int rows, int64_t row_stride, int column, int columns,
                          int64_t column_stride, float* shared) {
    const bool by_rows = row_stride == 1;
    for (int k = int(threadIdx.x); k < tile * tile; k += block_threads) {
        const int i = by_rows ? k % tile : k / tile, j = by_rows ? k / tile : k % tile;
        const bool inside = row + i < rows && column + j < columns;
        shared[i * (tile + 1) + j] = inside ? from[(row + i) * row_stride + (column + j) * column_stride] : 0.0f;
    }
}

/// Computes a stage's GEMM of each matrix. Grid (tiles of the largest GEMM, matrices).
__global__ void __launch_bounds__(block_threads) multiply(const MuonMatrix* matrices, Stage stage, int from) {
    const MuonMatrix& m = matrices[blockIdx.y];
    const Gemm p = gemm_of(m, stage, m.x[from], m.x[1 - from]);
    const int across = (p.columns + tile - 1) / tile, down = (p.rows + tile - 1) / tile;
    if (int(blockIdx.x) >= across * down) return;
    const int row = int(blockIdx.x) / across * tile, column = int(blockIdx.x) % across * tile;
    float* left = shared_memory<float>();
    float* right = left + tile * (tile + 1);
    const int i0 = int(threadIdx.x) / tile_side * per_thread, j0 = int(threadIdx.x) % tile_side * per_thread;
    float sum[per_thread][per_thread] = {};
    for (int term = 0; term < p.terms; term += tile) {
        read_tile(p.left, row, p.rows, p.left_row, term, p.terms, p.left_term, left);
        read_tile(p.right, term, p.terms, p.right_term, column, p.columns, p.right_column, right);
        __syncthreads();
        for (int k = 0; k < tile; ++k)
            for (int i = 0; i < per_thread; ++i)
                for (int j = 0; j < per_thread; ++j)
                    sum[i][j] += left[(i0 + i) * (tile + 1) + k] * right[k * (tile + 1) + j0 + j];
        __syncthreads();
    }
    for (int i = 0; i < per_thread; ++i)
        for (int j = 0; j < per_thread; ++j) {
            if (row + i0 + i >= p.rows || column + j0 + j >= p.columns) continue;
            const int64_t at = int64_t(row + i0 + i) * p.columns + column + j0 + j;
            p.to[at] = (p.plus ? p.alpha * p.plus[at] : 0.0f) + p.beta * sum[i][j];
        }
}

}  // namespace

void orthogonalise(const Update& u, const MuonMatrix* matrices, const std::vector<MuonMatrix>& host,
                   const LossScale* loss_scale, cudaStream_t stream) {
    if (host.empty()) return;
    const auto tiles = [](int n) { return unsigned(n + tile - 1) / tile; };
    unsigned most_small = 0, most = 0;
    for (const MuonMatrix& m : host) {
        const unsigned side = tiles(std::min(m.rows, m.columns));
        most_small = std::max(most_small, side * side);
        most = std::max(most, tiles(m.rows) * tiles(m.columns));
    }
    const auto count = unsigned(host.size());
    const dim3 by_parts(parts, count), threads(block_threads);
    const Source from{u.weights, u.state, u.gradients, u.spec.muon_momentum, u.counters, loss_scale};
    launch(directions, by_parts, threads, block_threads * sizeof(double), stream, from, matrices);
    launch(normalise, by_parts, threads, 0, stream, matrices);
    constexpr size_t shared = 2 * tile * (tile + 1) * sizeof(float);
    for (int k = 0; k < muon_iterations; ++k) {
        launch(multiply, dim3(most_small, count), threads, shared, stream, matrices, Stage::gram, k % 2);
        launch(multiply, dim3(most_small, count), threads, shared, stream, matrices, Stage::polynomial, k % 2);
        launch(multiply, dim3(most, count), threads, shared, stream, matrices, Stage::next, k % 2);
    }
}

}  // namespace convoy::kernels
