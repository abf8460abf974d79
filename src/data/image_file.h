// Image files as pixels: JPEG by libjpeg-turbo, PNG by libpng. A file's first bytes say which of
// the two it is, never its name. Nothing is allocated for sizes that the file's bytes cannot hold.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace convoy {

using FileBytes = std::span<const uint8_t>;

/// What was special about a file, for summaries. Each has a rule:
/// - grey: the one channel three times;
/// - cmyk: of JPEG, also YCCK, inverted as Adobe stores it; red is (255 - cyan)(255 - black) / 255,
///   rounded, and so on, as Pillow has it;
/// - turned: the EXIF orientation of a JPEG is applied, all eight;
/// - sixteen_bits: of PNG; the high bytes are taken;
/// - alpha: of PNG, also a transparent colour; left out, as Pillow does;
/// - extra_bytes: a JPEG with bytes between its segments that mean nothing; they are passed over.
/// Palettes and fewer than 8 bits are expanded. Gamma and colour profiles are left out.
enum class ImageNote : uint8_t { grey, cmyk, turned, sixteen_bits, alpha, png, extra_bytes };
constexpr int image_notes = 7;

/// An image in memory.
struct RgbImage {
    int height = 0, width = 0;      ///< as it is looked at, after EXIF's orientation
    std::vector<uint8_t> pixels{};  ///< [height, width, 3]
    uint32_t notes = 0;             ///< bit i: ImageNote i

    void note(ImageNote which) { notes |= 1u << int(which); }
    bool has(ImageNote which) const { return notes >> int(which) & 1; }
};

/// What is wrong with an image file, without its name.
struct BadImage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The largest image that is read. ImageNet's largest side is 9,331.
constexpr int most_image_side = 16'384;
constexpr int64_t most_image_pixels = 100'000'000;
/// Bytes of a file's pixels, three a pixel, by its own bytes: a Huffman code takes a bit for a
/// block of 8x8 grey pixels, 1536 to 1. A PNG of few bits a pixel may hold more, and is then not
/// kept as it is.
constexpr int64_t most_pixel_bytes_a_byte = 2048;

/// Decodes a whole file into `to`, whose memory is used again. Throws BadImage: neither JPEG nor
/// PNG, larger than the limits, of more pixels than its bytes can hold, cut off, or damaged as far
/// as decoders notice.
void decode_image(FileBytes, RgbImage& to);

// One format each; for decode_image.
void decode_jpeg(FileBytes, RgbImage& to);
void decode_png(FileBytes, RgbImage& to);
/// Throws BadImage beyond the limits: the image `claims` or `becomes` so many pixels.
void check_image_size(int64_t height, int64_t width, const std::string& verb = "claims");

/// EXIF's orientation, 1 to 8, in the content of a JPEG's APP1 segment; 1 if it says none that is
/// one.
int exif_orientation(FileBytes segment);
/// Turns and mirrors an image as that orientation asks.
void turn_upright(RgbImage&, int orientation);

/// Of libjpeg-turbo, as it was built against; it says nothing at run time.
std::string jpeg_version();
/// Of libpng, as it runs.
std::string png_version();

}  // namespace convoy
