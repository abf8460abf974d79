// When in backward each gradient is complete, which is when its sum over ranks may begin.
#pragma once
#include <vector>

#include "model/graph.h"

namespace convoy {

struct ReadyGradient {
    size_t count;   ///< elements
    double moment;  ///< share of backward's time that is over: 0 to 1
};

/// In backward order. Time is taken to go with the multiply-adds of convolutions and linear layers;
/// of a graph without any, evenly over its ops.
std::vector<ReadyGradient> ready_gradients(const Graph&);

}  // namespace convoy
