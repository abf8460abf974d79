// Softmax cross-entropy with label smoothing, for one label, or two that share an image. It is the
// mean over the global batch, of which each rank holds a part.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace convoy::cpu {
namespace {

/// Returns the logarithm of the sum of exponentials of row [k], in double.
double log_sum_exp(const float* row, int k) {
    const float top = *std::max_element(row, row + k);
    double sum = 0;
    for (int j = 0; j < k; ++j) sum += std::exp(double(row[j]) - top);
    return top + std::log(sum);
}

/// Returns true if fewer than five logits of row [k] are better than the label's. Of equal logits,
/// the one with the lower index is better. A logit is also better if it or the label's is NaN.
bool among_five(const float* row, int k, int label) {
    int better = 0;
    for (int j = 0; j < k; ++j) better += !(row[label] > row[j] || (row[label] == row[j] && label <= j));
    return better < 5;
}

/// Returns the mean of the labels' logits, weighted by their shares. With one label, the result has
/// the bits of its logit.
double mean_logit(const float* row, const Target& t) {
    return t.share < 1 ? t.share * row[t.own] + (1 - t.share) * row[t.partner] : row[t.own];
}

}  // namespace

void CpuBackend::forward(const SoftmaxXent& op, const OpArguments& b, Tape& tape) {
    const float* x = b.values[op.x].as<float>();
    const int32_t* label = b.labels.as<int32_t>();
    const int n = b.values[op.x].shape.n, k = b.values[op.x].shape.c;
    // summed in index order, so that the sum always has the same bits
    const auto losses = std::make_shared<std::vector<double>>(size_t(n));
    tape.push_back({named_launch(LaunchPhase::forward, "loss", b.op), Resource::compute,
                    [=, stats = b.stats, mixed = b.mixed, smoothing = double(op.label_smoothing)] {
                        int64_t correct = 0, top5 = 0;
#pragma omp parallel for schedule(static) reduction(+ : correct, top5)
                        for (int i = 0; i < n; ++i) {
                            const float* row = x + int64_t(i) * k;
                            const double lse = log_sum_exp(row, k);
                            double sum = 0;
                            for (int j = 0; j < k; ++j) sum += row[j];
                            // -sum_j target_j (row_j - lse), target = (1 - s) Target::of + s / k
                            const Target t = target_of(label, mixed, i);
                            (*losses)[i] = lse - (1 - smoothing) * mean_logit(row, t) - smoothing / k * sum;
                            correct += std::max_element(row, row + k) - row == t.larger();
                            top5 += among_five(row, k, t.larger());
                        }
                        stats->loss_sum = float(std::accumulate(losses->begin(), losses->end(), 0.0));
                        stats->correct = float(correct);
                        stats->top5 = float(top5);
                    }});
}

void CpuBackend::backward(const SoftmaxXent& op, const OpArguments& b, Tape& tape) {
    const float* x = b.values[op.x].as<float>();
    float* dx = b.value_gradients[op.x].as<float>();
    const int32_t* label = b.labels.as<int32_t>();
    const int n = b.values[op.x].shape.n, k = b.values[op.x].shape.c;
    tape.push_back({named_launch(LaunchPhase::gradient, "loss gradient", b.op), Resource::compute,
                    [=, mixed = b.mixed, scale = op.sum ? 1.0 : 1.0 / double(b.global_batch),
                     smoothing = double(op.label_smoothing)] {
#pragma omp parallel for schedule(static)
                        for (int i = 0; i < n; ++i) {
                            const float* row = x + int64_t(i) * k;
                            const double lse = log_sum_exp(row, k);
                            const Target t = target_of(label, mixed, i);
                            for (int j = 0; j < k; ++j) {
                                const double target = (1 - smoothing) * t.of(j) + smoothing / k;
                                dx[int64_t(i) * k + j] = float((std::exp(row[j] - lse) - target) * scale);
                            }
                        }
                    }});
}

}  // namespace convoy::cpu
