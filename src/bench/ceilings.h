// Measures the peak rates of a rank's device, with which the operations of a step are compared.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// Peak rates of one rank, measured while all ranks are busy; 0: not measured.
struct Ceilings {
    double flops = 0;      ///< FLOP/s of a 1x1 convolution of 1024 to 1024 channels, which is a GEMM
    double f32_flops = 0;  ///< the same for values in f32; 0 if `f32_too` was false
    double bytes = 0;      ///< bytes read and written per second, copying 256 MiB
};

/// Measures the ceilings for values of this type. If memory runs out, the rest stays 0. Collective;
/// call it after the last step.
Ceilings measure_ceilings(Backend&, DType values, bool f32_too);

}  // namespace convoy
