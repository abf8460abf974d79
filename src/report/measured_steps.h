// Reads measured steps from a run, a benchmark's JSON, or a table as CSV.
#pragma once
#include <string>
#include <vector>

#include "plan/step_fit.h"

namespace convoy {

/// The measured steps of a file, and what they were measured on. Empty texts and 0: not known.
struct MeasuredFile {
    std::vector<MeasuredStep> steps;
    std::string precision{}, image_size{}, device{};  ///< "bf16", "224x224x3", "cpu" or "gpu"
    int64_t classes = 0;
};

/// Reads measured steps. `path` is one of
/// - a run folder or its metrics.h5;
/// - a file *.json whose last line was printed by `convoy bench`;
/// - a table *.csv. # starts a comment, and the first line names the columns. Required: nodes, gpus
///   (or ranks, accelerators), batch_per_gpu (or _rank, _accelerator) and images_per_s of all ranks
///   (or images_per_second, samples_per_second). All rows must have the same model and precision if
///   there are such columns. Other columns are ignored.
/// Throws Exit::bad_input if the file has another format or no step, or if it says that its model
/// is not `model`.
MeasuredFile read_measured_steps(const std::string& path, const std::string& model);

/// Returns true if the image size ("224x224x3") and the classes are plausible; both may be missing.
bool could_be(const std::string& image_size, int64_t classes);

}  // namespace convoy
