// Lines of bench in the formats of other benchmarks, for programs that read those: of
// tf_cnn_benchmarks, and of Horovod's pytorch_synthetic_benchmark.py. Statistics follow their
// formulas and are of rank 0's steps; totals are of all ranks.
#pragma once
#include <string>
#include <vector>

#include "bench/result.h"
#include "run/metrics_rows.h"

namespace convoy {

/// --log-format of bench
enum class BenchLines { plain, tf_cnn, horovod };

/// Steps of an iteration in Horovod's script. The number of steps must be a multiple of it.
constexpr int64_t horovod_steps = 10;

/// A line for step 1 and every tenth, about all steps so far. With t the times of these steps, v =
/// batch / t and n their number: batch / mean(t) +/- deviation(v) / sqrt(n), and as jitter 1.4826
/// times the median of |v - median(v)|. The total is over wall time.
std::string tf_cnn_text(const BenchResult&, const std::vector<TrainRow>& steps);

/// A line per ten steps, then mean +- 1.96 deviations of these rates, per rank and in all.
std::string horovod_text(const BenchResult&, const std::vector<TrainRow>& steps);

}  // namespace convoy
