// Muon (Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024): a matrix moves
// along its momentum. Newton-Schulz iterations in f32 first bring all singular values of the
// momentum to about one. Before it moves, the matrix is scaled so that its norm is the square root
// of its number of rows.
#pragma once
#include <dnnl.hpp>

#include <functional>

#include "backend/backend.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {

/// Builds the update of one matrix [segment.rows, segment.columns]. The returned function takes the
/// step's learning rate.
std::function<void(float rate)> muon_step(const dnnl::engine&, const dnnl::stream&, const Update&,
                                          const UpdateSegment& segment);

}  // namespace convoy::cpu
