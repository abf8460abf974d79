// How a backend runs the ops of a program: decided before the program has memory, because it says
// what memory the program needs.
#pragma once
#include <vector>

#include "backend/step.h"
#include "model/graph.h"

namespace convoy {

/// A program before it has memory.
struct Outline {
    const Graph& graph;
    int batch;  ///< samples of this rank; 0: it only takes part in collectives
    bool training;
    const GradientFlow& gradients;  ///< in training
};

/// What an op's steps do with memory where the graph alone does not say it.
struct OpMemory {
    size_t saved = 0;             ///< bytes that live from its forward to its backward
    bool writes_value = true;     ///< false: what reads its output computes it from its inputs
    bool writes_gradient = true;  ///< false: the gradient of its output is in no memory
    int gradients_by = none;      ///< the op whose backward writes the gradients of this op's inputs; none: its own
};

/// What an op multiplies in a direction.
struct Products {
    double of_direct = 1;  ///< as a part of what a direct sum multiplies
    bool in_f32 = false;   ///< whatever the type of its values is; else in that
};

/// Backends derive from it, and find again in the steps what they decided.
struct Ways {
    std::vector<OpMemory> memory;  ///< by op

    Ways() = default;
    Ways(const Ways&) = default;
    Ways(Ways&&) = default;
    Ways& operator=(const Ways&) = default;
    Ways& operator=(Ways&&) = default;
    virtual ~Ways() = default;
    virtual Products products(int /*op*/, StepPhase /*direction*/) const { return {}; }
};

}  // namespace convoy
