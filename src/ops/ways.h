// How a backend runs the ops of a program. It is decided before the program has memory, because the
// decision says what memory the program needs.
#pragma once
#include <vector>

#include "model/graph.h"
#include "ops/step.h"

namespace convoy {

/// The shape of a program before it has memory.
struct Outline {
    const Graph& graph;
    int batch;  ///< samples of this rank; 0: the rank only takes part in collectives
    bool training;
    const GradientFlow& gradients;  ///< in training
};

/// An op's memory, where the graph alone does not determine it.
struct OpMemory {
    size_t saved = 0;             ///< bytes that live from the op's forward to its backward
    bool writes_value = true;     ///< false: readers of its output compute it from the op's inputs
    bool writes_gradient = true;  ///< false: the gradient of its output has no memory
    int gradients_by = none;      ///< the op whose backward writes the gradients of this op's inputs; none: this op
};

/// The multiplications of an op in one direction.
struct Products {
    double of_direct = 1;  ///< fraction of a direct convolution's multiplications
    bool in_f32 = false;   ///< in f32 whatever the type of its values; false: in that type
};

/// The decisions for a program. Backends derive from it, and read their decisions back when they
/// append tape steps.
struct Ways {
    std::vector<OpMemory> memory;  ///< per op

    Ways() = default;
    Ways(const Ways&) = default;
    Ways(Ways&&) = default;
    Ways& operator=(const Ways&) = default;
    Ways& operator=(Ways&&) = default;
    virtual ~Ways() = default;
    virtual Products products(int /*op*/, StepPhase /*direction*/) const { return {}; }
};

}  // namespace convoy
