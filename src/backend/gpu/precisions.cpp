#include "backend/gpu/precisions.h"

#include "base/error.h"

namespace convoy::cuda {
namespace {

constexpr int first_with_bf16 = 80, first_with_tensor_cores = 70;

}  // namespace

std::string capability_text(int c) { return std::to_string(c / 10) + "." + std::to_string(c % 10); }

bool computes_in(Precision precision, int capability) {
    return capability >= first_with_bf16 || (precision != Precision::bf16 && precision != Precision::tf32);
}

Precision usual_precision(int capability) {
    if (capability >= first_with_bf16) return Precision::bf16;
    return capability >= first_with_tensor_cores ? Precision::f16 : Precision::f32;
}

void check_precision(Precision precision, int capability, const std::string& gpu) {
    if (computes_in(precision, capability)) return;
    const std::string name = name_of(precision);
    fail(Exit::usage, "--precision " + name + ": " + gpu + " has compute capability " + capability_text(capability) +
                          ", and " + name + " needs " + capability_text(first_with_bf16) + "; choose f32 or f16");
}

}  // namespace convoy::cuda
