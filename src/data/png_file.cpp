#include "data/png_file.h"

#include <png.h>

#include <new>

namespace convoy {

std::vector<uint8_t> png_of(const RgbImage& image) {
    png_image png{};
    png.version = PNG_IMAGE_VERSION;
    png.width = png_uint_32(image.width);
    png.height = png_uint_32(image.height);
    png.format = PNG_FORMAT_RGB;
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
    std::vector<uint8_t> file(bytes);
    if (!png_image_write_to_memory(&png, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr))
        throw std::bad_alloc();
    file.resize(bytes);
    return file;
}

}  // namespace convoy
