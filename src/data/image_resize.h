// What images are resized to on their way into a data set.
#pragma once
#include <string>

#include "data/image_file.h"

namespace convoy {

/// By base/resample.h: bilinear with antialias, rounded once, at the end.
struct Resize {
    enum class Kind {
        as_it_is,
        short_side,  ///< the short side becomes `short_side`, the other keeps the aspect, rounded down
        exact        ///< resized until height x width is covered, and cut in the middle
    };
    Kind kind = Kind::as_it_is;
    int short_side = 0, height = 0, width = 0;

    /// "short side 256", "256x256", "as they are"
    std::string text() const;
};

/// Resizes `from` into `to`; false if it is to stay as it is. Smaller images are enlarged. Throws
/// BadImage if that is beyond the limits of image_file.h.
bool resize(const RgbImage& from, const Resize&, RgbImage& to);

}  // namespace convoy
