// Steps that were measured, from wherever they stand: a run, a benchmark's JSON, a table as CSV.
#pragma once
#include <string>
#include <vector>

#include "plan/step_fit.h"

namespace convoy {

/// What was measured, and on what; empty texts and 0: the file does not say.
struct MeasuredFile {
    std::vector<MeasuredStep> steps;
    std::string precision{}, image_size{}, device{};  ///< "bf16", "224x224x3", "cpu" or "gpu"
    int64_t classes = 0;
};

/// `path` is one of
/// - a run folder or its metrics.h5;
/// - a file *.json whose last line is what `convoy bench` printed;
/// - a table *.csv: # starts a comment, the first line names the columns. Needed are nodes, gpus
///   (or ranks, accelerators), batch_per_gpu (or _rank, _accelerator) and images_per_s (or
///   images_per_second, samples_per_second; of all). All rows must agree in model and precision, if
///   there are such columns; others are left out.
/// Throws Exit::bad_input if it is none, has no step, or is of another model.
MeasuredFile read_measured_steps(const std::string& path, const std::string& model);

}  // namespace convoy
