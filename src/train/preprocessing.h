// How pixels become a model's input.
#pragma once
#include <vector>

#include "backend/augment.h"

namespace convoy {

struct Preprocessing {
    std::vector<float> mean, stddev;  ///< by channel, units of pixel / 255
    /// Images are resized to this short side, and their centre is cut out in the model's size; 0:
    /// they have that size.
    int short_side = 0;

    /// Of an image that nothing is drawn for.
    Augment plain() const {
        Augment view;
        if (short_side > 0) view.crop = Crop::centre;
        view.short_side = short_side;
        return view;
    }
};

}  // namespace convoy
