// Decodes JPEG with libjpeg-turbo. Its errors return by longjmp to setjmp, so no function that they
// skip owns objects. A warning about missing pixels ends the decoding, because the library would
// make up grey ones.
#include <csetjmp>
#include <cstdio>
#include <cstring>

// jpeglib.h needs FILE and size_t to be declared before it.
#include <jpeglib.h>

#include <jerror.h>

#include "data/image_file.h"

namespace convoy {
namespace {

// Limit of scans. Progressive files have about ten. Empty scans take almost no bytes, but cost
// time.
constexpr int most_scans = 100;

/// libjpeg's error record, and our fields after it. Its callbacks cast the record to this struct,
/// so `base` must be the first member.
struct JpegErrors {
    jpeg_error_mgr base;
    std::jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    ImageFault fault;
    bool extra_bytes, odd_header;
};

ImageFault fault_of(int code) {
    switch (code) {
        case JWRN_JPEG_EOF:
        case JWRN_HIT_MARKER:  // a segment of pixels ends early
        case JERR_INPUT_EOF:
        case JERR_INPUT_EMPTY: return ImageFault::truncated;
        case JERR_SOF_UNSUPPORTED: return ImageFault::other_format;
        case JERR_IMAGE_TOO_BIG: return ImageFault::too_large;
        default: return ImageFault::damaged;
    }
}

[[noreturn]] void leave(j_common_ptr cinfo) {
    auto* errors = reinterpret_cast<JpegErrors*>(cinfo->err);
    errors->base.format_message(cinfo, errors->text);
    errors->fault = fault_of(errors->base.msg_code);
    std::longjmp(errors->back, 1);
}

/// Handles a warning: notes one that leaves all pixels correct, and ends the decoding for others.
void on_message(j_common_ptr cinfo, int level) {
    if (level >= 0) return;  // a trace message, not a warning
    auto* errors = reinterpret_cast<JpegErrors*>(cinfo->err);
    switch (errors->base.msg_code) {
        case JWRN_EXTRANEOUS_DATA: errors->extra_bytes = true; break;
        case JWRN_NOT_SEQUENTIAL:  // a sequential scan is decoded whole, whatever the tail of its header says
        case JWRN_ADOBE_XFORM:
        case JWRN_JFIF_MAJOR: errors->odd_header = true; break;
        default: leave(cinfo);
    }
}

void on_progress(j_common_ptr cinfo) {
    if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number <= most_scans) return;
    auto* errors = reinterpret_cast<JpegErrors*>(cinfo->err);
    std::snprintf(errors->text, sizeof errors->text, "has more than %d scans", most_scans);
    errors->fault = ImageFault::damaged;
    std::longjmp(errors->back, 1);
}

/// Decodes one file with libjpeg. Functions that call setjmp hold no objects with destructors. They
/// return false on errors, and `errors.text` then has the reason.
struct JpegReader {
    JpegErrors errors{};
    jpeg_progress_mgr progress{};
    jpeg_decompress_struct cinfo{};

    JpegReader() {
        cinfo.err = jpeg_std_error(&errors.base);
        errors.base.error_exit = leave;
        errors.base.emit_message = on_message;
        progress.progress_monitor = on_progress;
    }
    ~JpegReader() { jpeg_destroy_decompress(&cinfo); }
    JpegReader(const JpegReader&) = delete;

    bool read_header(FileBytes bytes) {
        if (setjmp(errors.back)) return false;
        jpeg_create_decompress(&cinfo);
        cinfo.progress = &progress;
        jpeg_mem_src(&cinfo, bytes.data(), bytes.size());
        jpeg_save_markers(&cinfo, JPEG_APP0 + 1, 0xffff);
        jpeg_read_header(&cinfo, TRUE);
        return true;
    }

    /// Decodes all rows. `four` [width, 4] is a buffer for one row of a CMYK image.
    bool read_rows(uint8_t* to, uint8_t* four) {
        if (setjmp(errors.back)) return false;
        jpeg_start_decompress(&cinfo);
        while (cinfo.output_scanline < cinfo.output_height) {
            JSAMPROW row = four ? four : to + size_t(cinfo.output_scanline) * cinfo.output_width * 3;
            uint8_t* rgb = to + size_t(cinfo.output_scanline) * cinfo.output_width * 3;
            jpeg_read_scanlines(&cinfo, &row, 1);
            if (four) to_rgb(four, rgb, cinfo.output_width);
        }
        jpeg_finish_decompress(&cinfo);
        return true;
    }

    /// Converts inverted CMYK, in which 255 means no ink, to RGB.
    static void to_rgb(const uint8_t* four, uint8_t* rgb, size_t pixels) {
        for (size_t i = 0; i < pixels; ++i)
            for (size_t c = 0; c < 3; ++c) rgb[i * 3 + c] = uint8_t((four[i * 4 + c] * four[i * 4 + 3] + 127) / 255);
    }

    int orientation() const {
        for (jpeg_saved_marker_ptr marker = cinfo.marker_list; marker; marker = marker->next)
            if (const int found = exif_orientation({marker->data, marker->data_length}); found != 1) return found;
        return 1;
    }
};

void check_claims(const jpeg_decompress_struct& cinfo, size_t bytes) {
    check_image_size(cinfo.image_height, cinfo.image_width);
    if (cinfo.arith_code)
        throw BadImage(ImageFault::other_format, "is a JPEG with arithmetic codes, which are not read");
    check_density(cinfo.image_height, cinfo.image_width, int64_t(cinfo.image_height) * cinfo.image_width * 3, bytes,
                  most_pixel_bytes_a_byte);
}

}  // namespace

void decode_jpeg(FileBytes bytes, RgbImage& to) {
    JpegReader reader;
    jpeg_decompress_struct& cinfo = reader.cinfo;
    if (!reader.read_header(bytes)) throw BadImage(reader.errors.fault, reader.errors.text);
    check_claims(cinfo, bytes.size());
    const bool inks = cinfo.jpeg_color_space == JCS_CMYK || cinfo.jpeg_color_space == JCS_YCCK;
    if (!inks && cinfo.num_components != 1 && cinfo.num_components != 3)
        throw BadImage(ImageFault::other_format, "is a JPEG of " + std::to_string(cinfo.num_components) + " channels");
    cinfo.out_color_space = inks ? JCS_CMYK : JCS_RGB;  // grey: libjpeg copies the channel
    to.set_size(int(cinfo.image_height), int(cinfo.image_width));
    to.pixels.resize(size_t(to.height) * size_t(to.width) * 3);
    const int orientation = reader.orientation();  // before jpeg_finish_decompress() frees it
    std::vector<uint8_t> four(inks ? size_t(to.width) * 4 : 0);
    if (!reader.read_rows(to.pixels.data(), inks ? four.data() : nullptr))
        throw BadImage(reader.errors.fault, reader.errors.text);
    if (inks) to.note(ImageNote::cmyk);
    if (cinfo.jpeg_color_space == JCS_GRAYSCALE) to.note(ImageNote::grey);
    if (reader.errors.extra_bytes) to.note(ImageNote::extra_bytes);
    if (reader.errors.odd_header) to.note(ImageNote::odd_header);
    turn_upright(to, orientation);
}

std::string jpeg_version() {
    constexpr int number = LIBJPEG_TURBO_VERSION_NUMBER;
    return std::to_string(number / 1'000'000) + "." + std::to_string(number / 1000 % 1000) + "." +
           std::to_string(number % 1000);
}

}  // namespace convoy
