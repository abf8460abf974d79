// The values of an exported tensor as bytes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace convoy {

/// Returns values as little-endian f32, f16 or bf16, rounded to nearest. Throws Exit::bad_input,
/// naming `what` ("tensor NAME"), if f16 cannot hold one.
std::vector<unsigned char> encoded(std::span<const float> values, DType type, const std::string& what);

}  // namespace convoy
