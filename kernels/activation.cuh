// Activations of one element and their derivatives. GELU is exact, with erf; the CPU backend
// approximates it (backend/cpu/gelu.h).
#pragma once
#include <cmath>

#include "base/host_device.h"

namespace convoy::kernels {

/// Returns max(z, 0), but unlike fmaxf keeps a NaN.
CONVOY_HD float relu(float z) { return z < 0 ? 0.0f : z; }

CONVOY_HD float gelu(float z) { return 0.5f * z * (1 + erff(z * 0.70710678f)); }

/// Returns Phi(z) + z phi(z), where Phi is the normal distribution and phi its density.
CONVOY_HD float gelu_derivative(float z) {
    return 0.5f * (1 + erff(z * 0.70710678f)) + z * 0.39894228f * expf(-0.5f * z * z);
}

}  // namespace convoy::kernels
