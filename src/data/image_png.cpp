// Decodes PNG with libpng. Its errors return by longjmp to setjmp, so no function that they skip
// owns objects.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "data/image_file.h"

namespace convoy {
namespace {

constexpr int64_t most_chunk_bytes = 8 << 20;

struct PngInput {
    const uint8_t* at;
    size_t left;
    char error[128];
    bool truncated;
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
    auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
    std::snprintf(input->error, sizeof input->error, "%s", text);
    png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t bytes) {
    auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
    input->truncated = bytes > input->left;
    if (input->truncated) png_error(png, "ends too early");
    std::memcpy(to, input->at, bytes);
    input->at += bytes;
    input->left -= bytes;
}

/// Decodes one file with libpng. Functions that call setjmp hold no objects with destructors. They
/// return false on errors, and `input.error` then has the reason.
struct PngReader {
    PngInput input;
    png_structp png;
    png_infop info;

    explicit PngReader(FileBytes bytes) : input{bytes.data(), bytes.size(), "", false} {
        png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, on_error, on_warning);
        info = png ? png_create_info_struct(png) : nullptr;
        if (!info) throw std::bad_alloc();
    }
    ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
    PngReader(const PngReader&) = delete;
    BadImage problem() const {
        return {input.truncated ? ImageFault::truncated : ImageFault::damaged, "PNG: " + std::string(input.error)};
    }

    bool read_header() {
        if (setjmp(png_jmpbuf(png))) return false;
        png_set_read_fn(png, &input, on_read);
        png_set_user_limits(png, most_image_side, most_image_side);
        png_set_chunk_malloc_max(png, most_chunk_bytes);
        // Reads only pixels and orientation, because texts of a few kilobytes may inflate to
        // megabytes each.
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, png_const_bytep("eXIf"), 1);
        png_read_info(png, info);
        return true;
    }

    bool read_rows(uint8_t* to, size_t height, size_t row_bytes) {
        if (setjmp(png_jmpbuf(png))) return false;
        png_set_expand(png);  // palettes, and fewer than 8 bits
        png_set_strip_16(png);
        png_set_strip_alpha(png);
        png_set_gray_to_rgb(png);
        const int passes = png_set_interlace_handling(png);
        png_read_update_info(png, info);
        if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "has rows of another length");
        for (int pass = 0; pass < passes; ++pass)
            for (size_t row = 0; row < height; ++row) png_read_row(png, to + row * row_bytes, nullptr);
        png_read_end(png, info);
        return true;
    }

    int orientation() const {
        png_bytep content = nullptr;
        png_uint_32 bytes = 0;
        return png_get_eXIf_1(png, info, &bytes, &content) ? exif_orientation({content, bytes}) : 1;
    }
};

}  // namespace

void decode_png(FileBytes bytes, RgbImage& to) {
    PngReader reader(bytes);
    if (!reader.read_header()) throw reader.problem();
    const int64_t height = png_get_image_height(reader.png, reader.info),
                  width = png_get_image_width(reader.png, reader.info);
    check_image_size(height, width);
    check_density(height, width, height * int64_t(png_get_rowbytes(reader.png, reader.info)), bytes.size(),
                  most_deflate);
    const int type = png_get_color_type(reader.png, reader.info);
    to.note(ImageNote::png);
    if (!(type & PNG_COLOR_MASK_COLOR)) to.note(ImageNote::grey);
    if ((type & PNG_COLOR_MASK_ALPHA) || png_get_valid(reader.png, reader.info, PNG_INFO_tRNS))
        to.note(ImageNote::alpha);
    if (png_get_bit_depth(reader.png, reader.info) == 16) to.note(ImageNote::sixteen_bits);
    to.set_size(int(height), int(width));
    to.pixels.resize(size_t(height * width) * 3);
    if (!reader.read_rows(to.pixels.data(), size_t(height), size_t(width) * 3)) throw reader.problem();
    turn_upright(to, reader.orientation());
}

std::string png_version() { return png_get_libpng_ver(nullptr); }

}  // namespace convoy
