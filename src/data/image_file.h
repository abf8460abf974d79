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
/// - extra_bytes: a JPEG with bytes between its segments that mean nothing; they are passed over;
/// - odd_header: a JPEG whose headers are not as the standard has them, but whose pixels are all
///   there: the tail of a scan's header, the colour code of Adobe, JFIF's version.
/// Palettes and fewer than 8 bits are expanded. Gamma and colour profiles are left out.
enum class ImageNote : uint8_t { grey, cmyk, turned, sixteen_bits, alpha, png, extra_bytes, odd_header };
constexpr int image_notes = 8;

/// An image in memory.
struct RgbImage {
    int height = 0, width = 0;      ///< as it is looked at, after EXIF's orientation
    std::vector<uint8_t> pixels{};  ///< [height, width, 3]
    uint32_t notes = 0;             ///< bit i: ImageNote i

    void note(ImageNote which) { notes |= 1u << int(which); }
    bool has(ImageNote which) const { return notes >> int(which) & 1; }
};

/// Why an image file is not taken.
enum class ImageFault : uint8_t {
    damaged,
    truncated,
    empty,
    other_format,  ///< GIF, WebP, a web page, …
    too_large,     ///< beyond the limits, or of more pixels than its bytes can hold
    too_narrow,    ///< beyond the limits once its short side is resized
    unreadable     ///< no permission to read it
};
constexpr int image_faults = 7;

/// What is wrong with an image file, without its name.
struct BadImage : std::runtime_error {
    BadImage(ImageFault what_kind, const std::string& what) : std::runtime_error(what), fault(what_kind) {}
    ImageFault fault;
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
/// Throws BadImage for an image of no pixels or of more than the limits: "VERB 9x20000 pixels, …".
void check_image_size(int64_t height, int64_t width, const std::string& verb = "claims",
                      ImageFault fault = ImageFault::too_large);

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
