// Muon (Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024): a matrix steps
// along its momentum with all singular values made about one, by Newton-Schulz iterations in f32.
// Before that its norm is set to the root of its rows.
#pragma once
#include <dnnl.hpp>

#include <functional>

#include "backend/backend.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {

/// One matrix [segment.rows, segment.columns] of an update; what comes back takes the learning rate
/// of the step.
std::function<void(float rate)> muon_step(const dnnl::engine&, const dnnl::stream&, const Update&,
                                          const UpdateSegment& segment);

}  // namespace convoy::cpu
