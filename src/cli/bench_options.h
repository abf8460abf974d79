// The options of `convoy bench`, as values.
#pragma once
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/measure.h"
#include "bench/step_lines.h"
#include "cli/train_options.h"

namespace convoy {

struct BenchOptions {
    MadeUpImages images;
    BenchSteps steps;
    BenchLines lines = BenchLines::plain;
    std::string log_format;  ///< `lines` as written
    std::string timeline;    ///< a file; empty: none
    std::string cluster;     ///< a file; empty: nothing is expected
};

/// Throws Exit::usage.
ParsedOptions parse_bench(const std::vector<std::string>& args, BenchOptions&);

}  // namespace convoy
