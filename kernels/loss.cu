// Softmax cross-entropy with label smoothing: one warp per row. Sums are in double, which costs
// little at this size, so that results are exact to float.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

constexpr unsigned warp_size = 32, all_lanes = ~0u;
constexpr int warps = block_threads / int(warp_size);  // rows per block

__device__ double warp_sum(double v) {
    for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(all_lanes, v, lanes);
    return v;
}

/// The largest value of a row and its first index, on every lane.
struct Top {
    float value;
    int index;
};
template <class T> __device__ Top top_of(const T* row, int classes, int lane) {
    Top top{-INFINITY, classes};
    for (int j = lane; j < classes; j += int(warp_size)) {
        const float v = to_float(row[j]);
        if (v > top.value || top.index == classes) top = {v, j};
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const Top other{__shfl_xor_sync(all_lanes, top.value, lanes), __shfl_xor_sync(all_lanes, top.index, lanes)};
        if (other.value > top.value || (other.value == top.value && other.index < top.index)) top = other;
    }
    return top;
}

template <class T> __device__ double log_sum_exp(const T* row, int classes, int lane, float top) {
    double sum = 0;
    for (int j = lane; j < classes; j += int(warp_size)) sum += exp(double(to_float(row[j])) - double(top));
    return double(top) + log(warp_sum(sum));
}

/// A row's contribution to BatchStats.
struct RowHits {
    int32_t correct, top5;
};

/// Returns how many logits of a row are better than the label's. Of equal logits, the one with the
/// lower index is better. A logit also counts as better if it or the label's is NaN.
template <class T> __device__ double better_than(const T* row, int classes, int lane, int label) {
    const float own = to_float(row[label]);
    int better = 0;
    for (int j = lane; j < classes; j += int(warp_size)) {
        const float v = to_float(row[j]);
        better += !(own > v || (own == v && label <= j));
    }
    return warp_sum(double(better));
}

/// Returns the mean of the labels' logits, weighted by their shares. With one label, the result has
/// the bits of its logit.
template <class T> __device__ double mean_logit(const T* row, const Target& t) {
    const double own = double(to_float(row[t.own]));
    return t.share < 1 ? t.share * own + (1 - t.share) * double(to_float(row[t.partner])) : own;
}

/// Writes loss [n] and hits [n].
template <class T>
__global__ void __launch_bounds__(block_threads)
    row_losses(const T* x, int n, int stored, int classes, const int32_t* labels, MixedLabels mixed, double smoothing,
               double* loss, RowHits* hits) {
    const int i = int(blockIdx.x) * warps + int(threadIdx.y), lane = int(threadIdx.x);
    if (i >= n) return;
    const T* row = x + int64_t(i) * stored;
    const Top top = top_of(row, classes, lane);
    const double lse = log_sum_exp(row, classes, lane, top.value);
    double sum = 0;
    for (int j = lane; j < classes; j += int(warp_size)) sum += double(to_float(row[j]));
    sum = warp_sum(sum);
    const Target target = target_of(labels, mixed, i);
    const double better = better_than(row, classes, lane, target.larger());
    if (lane > 0) return;
    // -sum_j target_j (row_j - lse), target = (1 - s) Target::of + s / k
    loss[i] = lse - (1 - smoothing) * mean_logit(row, target) - smoothing / classes * sum;
    hits[i] = {top.index == target.larger(), better < 5};
}

__global__ void __launch_bounds__(block_threads)
    sum_losses(const double* loss, const RowHits* hits, int n, BatchStats* stats) {
    double* sums = shared_memory<double>();
    RowHits* counts = reinterpret_cast<RowHits*>(sums + block_threads);
    const int thread = int(threadIdx.x);
    double sum = 0;
    RowHits count{0, 0};
    for (int i = thread; i < n; i += block_threads) {
        sum += loss[i];
        count.correct += hits[i].correct;
        count.top5 += hits[i].top5;
    }
    sums[thread] = sum;
    counts[thread] = count;
    for (int half = block_threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            sums[thread] += sums[thread + half];
            counts[thread].correct += counts[thread + half].correct;
            counts[thread].top5 += counts[thread + half].top5;
        }
    }
    if (thread > 0) return;
    stats->loss_sum = float(sums[0]);
    stats->correct = float(counts[0].correct);
    stats->top5 = float(counts[0].top5);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    loss_gradient(const T* x, int n, int stored, int classes, const int32_t* labels, MixedLabels mixed,
                  double smoothing, double scale, const float* loss_scale, T* dx) {
    const int i = int(blockIdx.x) * warps + int(threadIdx.y), lane = int(threadIdx.x);
    if (i >= n) return;
    if (loss_scale) scale *= double(*loss_scale);
    const T* row = x + int64_t(i) * stored;
    const double lse = log_sum_exp(row, classes, lane, top_of(row, classes, lane).value);
    const Target two = target_of(labels, mixed, i);
    for (int j = lane; j < stored; j += int(warp_size)) {
        const double target = (1 - smoothing) * two.of(j) + smoothing / classes;
        dx[int64_t(i) * stored + j] =
            from_float<T>(j < classes ? float((exp(double(to_float(row[j])) - lse) - target) * scale) : 0.0f);
    }
}

}  // namespace

size_t loss_workspace(int n) { return size_t(n) * (sizeof(double) + sizeof(RowHits)); }

void loss_forward(const LossArgs& a, BatchStats* stats, void* workspace, cudaStream_t stream) {
    const int n = a.x.shape.n, stored = a.x.shape.c;
    require(a.classes <= stored && a.x.shape.pixels() == size_t(n), "loss: the logits do not fit");
    double* loss = static_cast<double*>(workspace);
    RowHits* hits = reinterpret_cast<RowHits*>(loss + n);
    if (n > 0)
        with_type(a.x.dtype, [&](auto t) {
            using T = decltype(t);
            launch(row_losses<T>, dim3(blocks_for(n, warps)), dim3(warp_size, warps), 0, stream, data_of<T>(a.x), n,
                   stored, a.classes, a.labels, a.mixed, double(a.label_smoothing), loss, hits);
        });
    launch(sum_losses, dim3(1), dim3(block_threads), block_threads * (sizeof(double) + sizeof(RowHits)), stream, loss,
           hits, n, stats);
}

void loss_backward(const LossArgs& a, const Tensor& dx, int64_t global_batch, const float* loss_scale,
                   cudaStream_t stream) {
    const int n = a.x.shape.n, stored = a.x.shape.c;
    require(dx.shape == a.x.shape && dx.dtype == a.x.dtype && a.classes <= stored, "loss: the gradient does not fit");
    if (n == 0) return;
    with_type(a.x.dtype, [&](auto t) {
        using T = decltype(t);
        launch(loss_gradient<T>, dim3(blocks_for(n, warps)), dim3(warp_size, warps), 0, stream, data_of<T>(a.x), n,
               stored, a.classes, a.labels, a.mixed, double(a.label_smoothing), 1.0 / double(global_batch), loss_scale,
               data_of<T>(dx));
    });
}

}  // namespace convoy::kernels
