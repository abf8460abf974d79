// Options of `convoy info`, and the model that they describe.
#pragma once
#include <string>
#include <vector>

#include "cli/help.h"
#include "model/graph.h"
#include "model/precision.h"

namespace convoy {

constexpr const char* chip_of_cpu = "cpu";  ///< value of --chip

struct InfoOptions {
    std::string path;  ///< a run, model or data set to describe; empty: none
    std::string plans, chip, precision, size, stem;
    int64_t batch = 0, classes = 0;
    int64_t line = 0;  ///< line of --run, from 1; 0: all lines, or no --run
};
/// Throws Exit::usage.
InfoOptions parse_info(const std::vector<std::string>& args);
/// Returns the graph that a training of the model runs.
Graph graph_of(const InfoOptions&, Precision);

}  // namespace convoy
