// The least work of a training step, counted from the shapes of a graph: floating-point operations
// and bytes by class of step. Measured times compare with these.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backend/step.h"
#include "backend/update_rule.h"
#include "backend/ways.h"
#include "model/graph.h"

namespace convoy {

struct Work {
    double flops = 0;  ///< multiply-adds count two; convolutions and linear layers only, by direct sums
    double bytes = 0;  ///< compulsory traffic: perfect cache within an op, cold between ops
    // What the ways of a backend multiply for these flops, counted alike:
    double typed = 0;  ///< in the type of the values
    double f32 = 0;    ///< in f32, where that is another type
};
/// By class: "conv forward", "conv data gradient", "conv weight gradient", "batch norm forward",
/// "batch norm gradient", …, "gather", "optimizer", "all-reduce".
using WorkByClass = std::map<std::string, Work>;

/// One training step of one of `ranks` ranks with `batch` samples of its own, as `ways` run it.
WorkByClass work_of_step(const Graph&, int batch, int ranks, const OptimizerSpec&, const Ways& ways = {});

/// The class of a step: "conv weight gradient", "batch norm forward", "all-reduce". One that
/// computes two ops is of a class of its own: "pool and batch norm forward".
std::string class_of_step(const StepId&, const Graph&);
/// The classes of its parts if a step computes two ops: "pool forward" and "batch norm forward".
std::vector<std::string> parts_of_step(const StepId&, const Graph&);

}  // namespace convoy
