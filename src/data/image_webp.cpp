// Decodes WebP with libwebp. For an animation, decodes the first frame into a black canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/memory.h"
#include "data/image_file.h"

namespace convoy {
namespace {

// Images up to this size are read at any density, because an image of one colour takes 30 bytes.
constexpr int64_t small_image_bytes = 64 << 20;

using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;

Demuxer demux(FileBytes bytes) {
    WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
    const WebPData data{bytes.data(), bytes.size()};
    Demuxer demuxer(WebPDemuxPartial(&data, &state), WebPDemuxDelete);
    if (state == WEBP_DEMUX_PARSE_ERROR) throw BadImage(ImageFault::damaged, "WebP: its chunks contradict each other");
    if (state != WEBP_DEMUX_DONE) throw BadImage(ImageFault::truncated, "WebP: ends too early");
    if (!demuxer) throw std::bad_alloc();
    return demuxer;
}

/// The first frame of a file.
class WebPFrame {
public:
    explicit WebPFrame(const WebPDemuxer* demuxer) {
        if (!WebPDemuxGetFrame(demuxer, 1, &frame)) throw BadImage(ImageFault::damaged, "WebP: has no picture");
    }
    ~WebPFrame() { WebPDemuxReleaseIterator(&frame); }
    WebPFrame(const WebPFrame&) = delete;

    WebPIterator frame{};
};

/// libwebp 1.5 reports a lack of memory for some damaged files, too. `pixels`: of the picture.
void check(VP8StatusCode status, int64_t pixels) {
    if (status == VP8_STATUS_OK) return;
    constexpr size_t tables = size_t(512) << 20;  // libwebp's own, ample
    if (status == VP8_STATUS_OUT_OF_MEMORY && !is_available(tables + size_t(pixels) * 8)) throw std::bad_alloc();
    if (status == VP8_STATUS_SUSPENDED || status == VP8_STATUS_NOT_ENOUGH_DATA)
        throw BadImage(ImageFault::truncated, "WebP: ends too early");
    throw BadImage(ImageFault::damaged, status == VP8_STATUS_UNSUPPORTED_FEATURE ? "WebP: has an unknown feature"
                                                                                 : "WebP: its codes are wrong");
}

/// Decodes the frame into its place on the canvas.
void decode_frame(const WebPIterator& frame, RgbImage& to) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) throw std::runtime_error("libwebp is of another version than its headers");
    const int64_t pixels = int64_t(to.height) * to.width;
    check(WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &config.input), pixels);
    const int right = frame.x_offset + frame.width, below = frame.y_offset + frame.height;
    if (config.input.width != frame.width || config.input.height != frame.height || frame.x_offset < 0 ||
        frame.y_offset < 0 || right > to.width || below > to.height)
        throw BadImage(ImageFault::damaged, "WebP: its sizes contradict each other");
    if (config.input.has_alpha) to.note(ImageNote::alpha);
    const size_t row = size_t(to.width) * 3;
    const size_t first = size_t(frame.y_offset) * row + size_t(frame.x_offset) * 3;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {to.pixels.data() + first, int(row), to.pixels.size() - first};
    check(WebPDecode(frame.fragment.bytes, frame.fragment.size, &config), pixels);
}

int orientation_of(const WebPDemuxer* demuxer) {
    WebPChunkIterator chunk{};
    if (!WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) return 1;
    const int orientation = exif_orientation({chunk.chunk.bytes, chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
    return orientation;
}

}  // namespace

void decode_webp(FileBytes bytes, RgbImage& to) {
    const Demuxer demuxer = demux(bytes);
    const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT),
                  width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH), decoded = height * width * 3;
    check_image_size(height, width);
    if (decoded > small_image_bytes) check_density(height, width, decoded, bytes.size(), most_pixel_bytes_a_byte);
    const WebPFrame first(demuxer.get());
    to.note(ImageNote::webp);
    if (WebPDemuxGetI(demuxer.get(), WEBP_FF_FRAME_COUNT) > 1) to.note(ImageNote::several);
    to.set_size(int(height), int(width));
    to.pixels.assign(size_t(decoded), 0);
    decode_frame(first.frame, to);
    turn_upright(to, orientation_of(demuxer.get()));
}

std::string webp_version() {
    const int number = WebPGetDecoderVersion();
    return std::to_string(number >> 16) + "." + std::to_string(number >> 8 & 255) + "." + std::to_string(number & 255);
}

}  // namespace convoy
