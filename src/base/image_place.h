// Where images of different sizes lie in memory, one after the other.
#pragma once
#include <cstdint>

namespace convoy {

/// One image [height, width, channels], packed, in the pixels of all.
struct ImagePlace {
    int64_t offset;  ///< bytes, from the first image's first
    int32_t height, width;
};

}  // namespace convoy
