// Colour jitter of an image on the host.
#pragma once
#include "ops/jitter.h"

namespace convoy::cpu {

/// Changes the colours of `image` [pixels, 3], from 0 to 255, in place. Ignores Jitter::mean.
void jitter_image(Jitter, float* image, int pixels);

}  // namespace convoy::cpu
