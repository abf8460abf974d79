// Counts the minimum work of a training step from the shapes of a graph: FLOPs and bytes by class
// of launch. Measured times are compared with it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/graph.h"
#include "ops/algorithms.h"
#include "ops/tape.h"
#include "ops/update_rule.h"

namespace convoy {

struct Work {
    double flops = 0;  ///< of convolutions and linear layers, if computed directly; a multiply-add counts as two
    double bytes = 0;  ///< compulsory traffic: perfect cache within an op, cold between ops
    // FLOPs that the backend's algorithms execute (fewer for Winograd), again two per multiply-add:
    double typed = 0;  ///< in the type of the values
    double f32 = 0;    ///< in f32, if the values have another type
};
/// Work by class: "conv forward", "conv data gradient", "conv weight gradient", "batch norm
/// forward", "batch norm gradient", …, "gather", "optimizer", "all-reduce".
using WorkByClass = std::map<std::string, Work>;

/// Counts one training step of one of `ranks` ranks with `batch` samples per rank, using the
/// algorithms in `algorithms`.
WorkByClass work_of_step(const Graph&, int batch, int ranks, const OptimizerSpec&, const Algorithms& algorithms = {});

/// Returns the class of a launch: "conv weight gradient", "batch norm forward", "all-reduce". A
/// launch that computes two ops has a separate class: "pool and batch norm forward".
std::string class_of_launch(const LaunchId&, const Graph&);
/// Returns the classes of both ops if a launch computes two: "pool forward" and "batch norm
/// forward". Empty for other launches.
std::vector<std::string> parts_of_launch(const LaunchId&, const Graph&);

}  // namespace convoy
