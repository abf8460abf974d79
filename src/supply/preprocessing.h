// The conversion of pixels to a model's input.
#pragma once
#include <vector>

#include "ops/augment.h"

namespace convoy {

struct Preprocessing {
    std::vector<float> mean, stddev;  ///< [channels], in units of pixel / 255
    /// Images are resized to this short side, and then cropped at the centre to the model's size;
    /// 0: they already have that size.
    int short_side = 0;

    /// Returns the augmentation without random parts, for evaluation.
    Augment plain() const {
        Augment view;
        if (short_side > 0) view.crop = Crop::centre;
        view.short_side = short_side;
        return view;
    }
};

}  // namespace convoy
