// The options of `convoy predict`, as values.
#pragma once
#include <string>
#include <vector>

#include "plan/step_fit.h"
#include "report/scaling.h"

namespace convoy {

struct PredictOptions {
    std::string model, cluster, precision;  ///< precision: empty, whatever is known
    int64_t batch = 0, classes = 0, gradient_bytes = 4;
    Shape images{0, 0, 0, 0};  ///< h 0: the usual
    double bucket_mib = 0;
    std::vector<MeasuredStep> steps;  ///< of --step: on one rank
    std::vector<std::string> from;
    std::string ranks;  ///< as written
    Format format = Format::text;
    bool explain = false;
    std::string plot;  ///< a file for a picture; empty: none
};

/// Throws Exit::usage.
PredictOptions parse_predict(const std::vector<std::string>& args);

/// Returns the powers of two of "1..32" (times a node's ranks, beyond one node), or the numbers of
/// "1,8,16". An empty text means 1 to all ranks of the cluster. Throws Exit::usage if some do not
/// fill nodes.
std::vector<int> ranks_to_predict(const std::string& text, int ranks_per_node, int nodes);

/// Seconds of "31ms", "0.031", "31000us" (for `batch` images), or of several batches:
/// "64:31ms,128:58ms". Throws Exit::usage.
std::vector<MeasuredStep> parse_steps(const std::string& text, int64_t batch);

}  // namespace convoy
