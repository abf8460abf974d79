// Lines of bench in the formats of tf_cnn_benchmarks and of Horovod's
// pytorch_synthetic_benchmark.py, for programs that read these. Statistics follow their formulas
// and are of rank 0's steps; totals are of all ranks.
#pragma once
#include <string>
#include <vector>

#include "bench/result.h"
#include "run/metrics_rows.h"

namespace convoy {

/// The values of bench's --log-format.
enum class BenchLines { plain, tf_cnn, horovod };

/// Steps of an iteration in Horovod's script. The number of steps must be a multiple of it.
constexpr int64_t horovod_steps = 10;

/// Returns a line for step 1 and for every tenth, about all n steps so far. Let t be their times,
/// and v = batch / t. The rate is batch / mean(t) +/- deviation(v) / sqrt(n). The jitter is 1.4826
/// times the median of |v - median(v)|. The total is over wall time.
std::string tf_cnn_text(const BenchResult&, const std::vector<TrainRow>& steps);

/// Returns a line with the rate of each ten steps. Then follows the mean +- 1.96 deviations of
/// these rates, per rank and for all ranks together.
std::string horovod_text(const BenchResult&, const std::vector<TrainRow>& steps);

}  // namespace convoy
