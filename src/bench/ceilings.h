// What a rank's device can do at most, measured: what the operations of a step are compared with.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// Of one rank while all ranks are at it; 0: not measured.
struct Ceilings {
    double flops = 0;  ///< a second, of a 1x1 convolution of 1024 to 1024 channels: a matrix product in its fastest way
    double f32_flops = 0;  ///< the same of values in f32; 0 too if nothing multiplies in f32 what is of another type
    double bytes = 0;      ///< read and written a second, copying 256 MiB
};

/// Collective, after the last step. Not measured if there is no memory left for it.
Ceilings measure_ceilings(Backend&, DType values, bool f32_too);

}  // namespace convoy
