// Resizes images for a data set.
#pragma once
#include <string>

#include "data/image_file.h"

namespace convoy {

/// The target size. resize() is bilinear with antialiasing (base/resample.h), and rounds once.
struct Resize {
    enum class Kind {
        as_it_is,
        short_side,  ///< the short side becomes `short_side`, the other keeps the aspect, rounded down
        exact        ///< resized to cover height x width, then cropped to the centre
    };
    Kind kind = Kind::as_it_is;
    int short_side = 0, height = 0, width = 0;

    /// Returns "short side 256", "256x256" or "as they are".
    std::string text() const;
};

/// Resizes `from` into `to`; enlarges smaller images. False if the image already has the size; then
/// `to` is not valid. Throws BadImage if the result is above the limits of image_file.h.
bool resize(const RgbImage& from, const Resize&, RgbImage& to);

}  // namespace convoy
