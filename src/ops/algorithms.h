// How a backend runs the ops of a program. The algorithms are selected before the program has
// memory, because they determine what memory it needs.
#pragma once
#include <vector>

#include "model/graph.h"
#include "ops/tape.h"

namespace convoy {

/// The shape of a program before it has memory.
struct ProgramShape {
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
struct Multiplications {
    double of_direct = 1;  ///< fraction of a direct convolution's multiplications
    bool in_f32 = false;   ///< true: always in f32; false: in the type of the op's values
};

/// The algorithms selected for the ops of a program. Backends derive from this, and read it back
/// when they append launches.
struct Algorithms {
    std::vector<OpMemory> memory;  ///< per op

    Algorithms() = default;
    Algorithms(const Algorithms&) = default;
    Algorithms(Algorithms&&) = default;
    Algorithms& operator=(const Algorithms&) = default;
    Algorithms& operator=(Algorithms&&) = default;
    virtual ~Algorithms() = default;
    virtual Multiplications multiplications(int /*op*/, LaunchPhase /*direction*/) const { return {}; }
};

}  // namespace convoy
