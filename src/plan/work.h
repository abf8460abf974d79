// What a training step has to do at least, counted from the shapes of a graph: floating-point operations and bytes, by class of
// operation. A measured time against these tells whether it goes into arithmetic, into memory, or into neither.
#pragma once
#include <map>
#include <string>

#include "backend/update_rule.h"
#include "model/graph.h"

namespace convoy {

struct Work {
    double flops = 0;  ///< multiply-adds count two; convolutions and linear layers only
    double bytes = 0;  ///< each operand read once and each result written once, as if caches were of any size within an operation and empty between
};
/// By class: "conv forward", "conv data gradient", "conv weight gradient", "batch norm forward", "batch norm gradient", …,
/// "gather", "optimizer", "all-reduce".
using WorkByClass = std::map<std::string, Work>;

/// One training step of one of `ranks` ranks with `batch` samples of its own.
WorkByClass work_of_step(const Graph&, int batch, int ranks, const OptimizerSpec&);

/// The class that a step of a tape belongs to, from its name: "conv forward stage1.conv1" -> "conv forward"; "relu input" ->
/// "relu forward". Starting an all-reduce and waiting for it are one class.
std::string class_of_step(const std::string& step_name, const Graph&);

}  // namespace convoy
