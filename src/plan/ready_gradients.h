// Estimates when backward completes each gradient, so that its all-reduce may begin.
#pragma once
#include <vector>

#include "model/graph.h"

namespace convoy {

struct ReadyGradient {
    size_t count;   ///< elements
    double moment;  ///< share of backward's time until the gradient is complete: 0 to 1
};

/// Returns the trained gradients in backward order. Time is assumed to be proportional to the
/// multiply-adds of convolutions and linear layers; in a graph without any, all ops count the same.
std::vector<ReadyGradient> ready_gradients(const Graph&);

}  // namespace convoy
