// Good pictures, changed or replaced by a fuzzer's bytes. Those of WebP, GIF, BMP and TIFF are the
// inputs named "good", without their first byte; run from the repository's root.
#include "tests/fuzz/pictures.h"

#include "base/error.h"
#include "data/image_file.h"
#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

void read_picture(const std::string& good, Bytes bytes) {
    const bool whole = bytes.empty() || (bytes[0] & 1);
    if (!bytes.empty()) bytes = bytes.subspan(1);
    const std::string file = whole ? std::string(bytes.begin(), bytes.end()) : changed(good, bytes);
    RgbImage image;
    try {
        decode_image(bytes_of(file), image);
    } catch (const BadImage& bad) {
        fail(Exit::bad_input, bad.what());
    }
    require(image.pixels.size() == size_t(image.height) * size_t(image.width) * 3, "an image has its pixels");
}

std::string good_input(const std::string& format) {
    return read_file("tests/fuzz/inputs/" + format + "/good").substr(1);
}

}  // namespace

std::string changed(std::string file, Bytes bytes) {
    for (; bytes.size() >= 4; bytes = bytes.subspan(4))
        file[((size_t(bytes[0]) << 16) + (size_t(bytes[1]) << 8) + bytes[2]) % file.size()] = char(bytes[3]);
    return file;
}

void read_jpeg(const std::string&, Bytes bytes) {
    static const std::string good = jpeg_of(pattern(24, 40, 1));
    read_picture(good, bytes);
}

void read_webp(const std::string&, Bytes bytes) {
    static const std::string good = good_input("webp");
    read_picture(good, bytes);
}

void read_gif(const std::string&, Bytes bytes) {
    static const std::string good = good_input("gif");
    read_picture(good, bytes);
}

void read_bmp(const std::string&, Bytes bytes) {
    static const std::string good = good_input("bmp");
    read_picture(good, bytes);
}

void read_tiff(const std::string&, Bytes bytes) {
    static const std::string good = good_input("tiff");
    read_picture(good, bytes);
}

}  // namespace convoy::test
