// The precisions that a GPU computes in, by its compute capability (10 * major + minor).
#pragma once
#include <string>

#include "model/precision.h"

namespace convoy::cuda {

/// Returns "7.0" for 70.
std::string capability_text(int capability);
/// Returns true if cuDNN computes in this precision. bf16 and tf32 need 8.0: for tf32, engines for
/// older GPUs may round operands to f16, whose range is smaller.
bool computes_in(Precision, int capability);
/// Returns the fastest precision that the GPU's tensor cores multiply: bf16, or f16 on older GPUs.
/// Returns f32 if there are no tensor cores.
Precision usual_precision(int capability);
/// Throws Exit::usage if `gpu` does not compute in this precision. `gpu`: as in "the Tesla P40".
void check_precision(Precision, int capability, const std::string& gpu);

}  // namespace convoy::cuda
