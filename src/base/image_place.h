// Locates images of different sizes that are packed in memory one after the other.
#pragma once
#include <cstdint>

namespace convoy {

/// The place of one image [height, width, channels] among the packed pixels of all images.
struct ImagePlace {
    int64_t offset;  ///< bytes from the start of the first image
    int32_t height, width;
};

}  // namespace convoy
