// Decodes image files: JPEG with libjpeg-turbo, PNG with libpng, WebP with libwebp, GIF with
// giflib, TIFF with libtiff, BMP with code here. A file's first bytes, not its name, decide which
// of these it is. No memory is allocated for sizes that the file's bytes cannot hold.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace convoy {

using FileBytes = std::span<const uint8_t>;

/// Peculiarities of an image file, counted for summaries, and how each is decoded:
/// - grey: the channel is repeated three times;
/// - cmyk: JPEG, also YCCK, inverted as Adobe stores it; TIFF, not inverted. As in Pillow, red is
///   (255 - cyan)(255 - black) / 255, rounded; green and blue likewise;
/// - turned: JPEG, PNG, WebP and TIFF; any of the eight EXIF orientations is applied;
/// - sixteen_bits: PNG and TIFF; the high bytes are taken;
/// - alpha: also a transparent colour; ignored, as in Pillow. Colours that a TIFF has multiplied by
///   alpha are divided by it;
/// - extra_bytes: JPEG with meaningless bytes between its segments, which are skipped;
/// - odd_header: JPEG that has all its pixels, but a non-standard value in its header: the end of a
///   scan's header, Adobe's colour code or JFIF's version;
/// - several: an animation or a file of several pages; the first picture is taken.
/// Palettes, and pixels of fewer than 8 bits, are expanded. Gamma and colour profiles are ignored.
/// If the first picture of an animation does not cover its canvas, the rest is black in a WebP. In
/// a GIF, the rest has the transparent colour or, if there is none, the first colour of the table.
enum class ImageNote : uint8_t {
    grey,
    cmyk,
    turned,
    sixteen_bits,
    alpha,
    png,
    extra_bytes,
    odd_header,
    webp,
    gif,
    bmp,
    tiff,
    several
};
constexpr int image_notes = 13;

/// An image in memory.
struct RgbImage {
    int height = 0, width = 0;      ///< after the EXIF orientation is applied
    std::vector<uint8_t> pixels{};  ///< [height, width, 3]
    uint32_t notes = 0;             ///< bit i: ImageNote i
    /// Called before a decoder or resize() takes memory for `pixels`, with their number of bytes.
    /// May block. A decoder may take twice as much for a time.
    std::function<void(size_t bytes)> before_pixels{};

    void set_size(int rows, int columns) {
        height = rows;
        width = columns;
        if (before_pixels) before_pixels(size_t(rows) * size_t(columns) * 3);
    }
    void note(ImageNote which) { notes |= 1u << int(which); }
    bool has(ImageNote which) const { return notes >> int(which) & 1; }
};

/// Reasons for leaving out an image file.
enum class ImageFault : uint8_t {
    damaged,
    truncated,
    empty,
    other_format,  ///< HEIC, a web page, a kind of BMP or TIFF that is not read, …
    too_large,     ///< above the limits, or more pixels than its bytes can hold
    too_narrow,    ///< above the limits after its short side is resized
    unreadable     ///< no permission to read it
};
constexpr int image_faults = 7;

/// The error for an image file; its text does not name the file.
struct BadImage : std::runtime_error {
    BadImage(ImageFault what_kind, const std::string& what) : std::runtime_error(what), fault(what_kind) {}
    ImageFault fault;
};

/// The largest image that is read. ImageNet's largest side is 9,331.
constexpr int most_image_side = 16'384;
constexpr int64_t most_image_pixels = 100'000'000;
/// Upper limit of decoded bytes (three per pixel) per byte of the file. A Huffman code takes one
/// bit for a block of 8x8 grey pixels, which is 1536 to 1. Pictures of other formats than JPEG may
/// exceed the limit; a data set that stores files (ImageLayout::jpeg) leaves these out.
constexpr int64_t most_pixel_bytes_a_byte = 2048;
/// Limits of decoded bytes per byte. Deflate packs at most 1032 to 1, which is rounded up to 1040.
/// One of LZW's codes of 12 bits stands for at most 4096 bytes.
constexpr int64_t most_deflate = 1040, most_lzw = 2731;

/// Decodes a whole file into `to`, reusing its memory. Throws BadImage if the format is not read
/// (data/image_formats.h), if the image is above the limits, or if it has more pixels than the
/// file's bytes can hold. Also throws it for truncation, and for damage that a decoder notices.
void decode_image(FileBytes, RgbImage& to);

// Decoders of one format each, for decode_image().
void decode_jpeg(FileBytes, RgbImage& to);
void decode_png(FileBytes, RgbImage& to);
void decode_webp(FileBytes, RgbImage& to);
void decode_gif(FileBytes, RgbImage& to);
void decode_bmp(FileBytes, RgbImage& to);
void decode_tiff(FileBytes, RgbImage& to);
/// Throws BadImage if an image has no pixels or is above the limits: "VERB 9x20000 pixels, …".
void check_image_size(int64_t height, int64_t width, const std::string& verb = "claims",
                      ImageFault fault = ImageFault::too_large);
/// Throws BadImage if an image's `decoded` bytes are more than `most_a_byte` times its file's.
void check_density(int64_t height, int64_t width, int64_t decoded, size_t file, int64_t most_a_byte);

/// Returns the EXIF orientation, 1 to 8, in a JPEG's APP1 segment or an EXIF chunk of PNG or WebP;
/// 1 if it has no valid one.
int exif_orientation(FileBytes content);
/// Turns and mirrors an image according to that orientation.
void turn_upright(RgbImage&, int orientation);

/// Return the versions of the loaded decoder libraries. libjpeg-turbo and giflib do not report
/// theirs, so jpeg_version() and gif_version() return those of their headers.
std::string jpeg_version();
std::string png_version();
std::string webp_version();
std::string gif_version();
std::string tiff_version();

}  // namespace convoy
