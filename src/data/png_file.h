// Writes PNG files with libpng.
#pragma once
#include "data/image_file.h"

namespace convoy {

/// Returns an image as the bytes of a PNG file of 8-bit RGB. Throws std::bad_alloc.
std::vector<uint8_t> png_of(const RgbImage&);

}  // namespace convoy
