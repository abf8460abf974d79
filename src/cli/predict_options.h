// The options of `convoy predict`, as values.
#pragma once
#include <string>
#include <vector>

#include "plan/step_fit.h"
#include "report/scaling.h"

namespace convoy {

struct PredictOptions {
    std::string model, cluster, precision;  ///< precision empty: not given
    int64_t batch = 0, classes = 0, gradient_bytes = 4;
    Shape images{0, 0, 0, 0};  ///< h == 0: the model's usual size
    double bucket_mib = 0;
    std::vector<MeasuredStep> steps;  ///< steps of --step, measured on one rank
    std::vector<std::string> from;
    std::string ranks;  ///< as the user wrote it
    Format format = Format::text;
    std::string as;            ///< "reframe": print references of ReFrame; empty: do not
    std::string system = "*";  ///< SYSTEM:PARTITION of these references
    bool explain = false;
    std::string plot;  ///< a file for a picture; empty: none
};

/// Throws Exit::usage.
PredictOptions parse_predict(const std::vector<std::string>& args);

/// Returns numbers of ranks. "1..32" gives powers of two within a node, then 1, 2, 4 … whole nodes.
/// "1,8,16" gives these numbers. An empty text means 1 to all ranks of the cluster. Throws
/// Exit::usage if a number of ranks does not fill its nodes.
std::vector<int> ranks_to_predict(const std::string& text, int ranks_per_node, int nodes);

/// Returns measured steps. "31ms", "0.031" and "31000us" are the time of a step of `batch` images;
/// "64:31ms,128:58ms" gives several batches. Throws Exit::usage.
std::vector<MeasuredStep> parse_steps(const std::string& text, int64_t batch);

}  // namespace convoy
