// Results of a benchmark, as a table for people and as one JSON line for programs.
#pragma once
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "plan/work.h"
#include "train/profile.h"

namespace convoy {

/// Seconds of a training step and its parts; `compute` is the rest of the step.
struct StepParts {
    double step = 0, data = 0, compute = 0, exposed = 0;
};

/// The time of all operations of one class in a step, each run alone (profile()), and the
/// work counted for them.
struct OpClass {
    std::string name;
    double seconds = 0;
    Work work;
};
/// Adds up times and work by class_of_launch(); returns the slowest class first.
std::vector<OpClass> by_class(const std::vector<LaunchTime>&, const Graph&, const WorkByClass&);

struct BenchResult {
    std::string model, precision, device, data, image_size;  ///< data: a folder, or "synthetic"
    std::string device_kind;                                 ///< "cpu" or "gpu"
    int64_t classes = 0, parameters = 0, ranks = 1, hosts = 1, threads = 1, batch_per_rank = 0, global_batch = 0,
            logical_ranks = 0, warmup = 0;  ///< logical_ranks: --virtual-ranks; 0: the ranks themselves
    Versions versions;                      ///< of the libraries, by name
    Facts environment;                      ///< of rank 0's host and device
    std::vector<double> images_per_second;  ///< of all ranks, by measured step
    /// over wall time, including what runs between steps (permutations, reports)
    double images_per_second_wall = NAN;
    StepParts median;                            ///< seconds: medians over the steps, then the mean over ranks
    double peak_memory = 0;                      ///< bytes, of the rank that takes most
    double flops_per_image = 0;                  ///< forward and backward, counted from the graph
    std::vector<OpClass> classes_of_operations;  ///< of rank 0; empty if not measured
    double expected_images_per_second = NAN;     ///< predicted from a cluster file; NaN: none was given
    std::string expected_limit{};                ///< the largest term of that prediction
    Ceilings ceilings;                           ///< of rank 0; measured with classes_of_operations
};

/// Returns the seconds of a step at the ceilings, one class after the other, without all-reduces.
/// Each class takes the longer of its multiplications and its memory traffic. Winograd's
/// convolutions count with the multiplications they execute. 0 if the ceilings are not known.
double roofline_seconds(const BenchResult&);
/// Formats the result as a table for people.
std::string bench_text(const BenchResult&);
/// Formats the result as one line of JSON, without a line break. Times are in seconds, sizes in
/// bytes.
std::string bench_json(const BenchResult&);

}  // namespace convoy
