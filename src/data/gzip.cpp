// Implements GzipReader with zlib's inflate(). Files that are not gzipped pass through unchanged.
#include "data/gzip.h"

#include <zlib.h>

#include <cstring>

#include "base/error.h"

namespace convoy {
namespace {

constexpr size_t input_bytes = 1 << 18;

void end(z_stream* stream) {
    inflateEnd(stream);
    delete stream;
}

}  // namespace

GzipReader::GzipReader(const std::string& path, Digests digests)
    : file_(path), input_(input_bytes), stream_(new z_stream{}, end) {
    constexpr int only_gzip = 16 + MAX_WBITS;
    if (digests == Digests::of_file) {
        md5_.emplace(Digest::Kind::md5);
        sha256_.emplace(Digest::Kind::sha256);
    }
    require(inflateInit2(stream_.get(), only_gzip) == Z_OK, "zlib has memory");
    gzipped_ = begins_stream();
}

void GzipReader::fail_at(const std::string& problem) const {
    fail(Exit::bad_input,
         path() + ": at byte " + std::to_string(offset_) + " of its content: " + problem + ", get it again");
}

/// Moves the unread input to the front, and reads on behind it. Returns false at the end of the
/// file.
bool GzipReader::refill() {
    const size_t left = stream_->avail_in;
    if (left > 0) std::memmove(input_.data(), stream_->next_in, left);
    const auto bytes = size_t(std::min<int64_t>(file_.size() - read_, int64_t(input_.size() - left)));
    file_.read(read_, int64_t(bytes), input_.data() + left);
    for (std::optional<Digest>* digest : {&md5_, &sha256_})
        if (*digest) (*digest)->update(input_.data() + left, bytes);
    read_ += int64_t(bytes);
    stream_->next_in = input_.data();
    stream_->avail_in = unsigned(left + bytes);
    return bytes > 0;
}

/// Returns true if the unread input begins like a gzipped stream.
bool GzipReader::begins_stream() {
    if (stream_->avail_in < 2) refill();
    return stream_->avail_in >= 2 && stream_->next_in[0] == 0x1f && stream_->next_in[1] == 0x8b;
}

/// Fills a part of the output. Several streams in a row are one stream; other bytes behind them are
/// ignored, as gzip does.
void GzipReader::inflate_some() {
    if (stream_->avail_in == 0 && !refill()) fail_at("the compressed stream ends too early; the file is truncated");
    const unsigned before = stream_->avail_out;
    const int code = inflate(stream_.get(), Z_NO_FLUSH);
    offset_ += before - stream_->avail_out;
    if (code == Z_STREAM_END) {
        if (begins_stream())
            inflateReset(stream_.get());
        else
            ended_ = true;
        return;
    }
    if (code == Z_OK || code == Z_BUF_ERROR) return;
    const char* reason = stream_->msg ? stream_->msg : zError(code);
    fail_at("cannot be decompressed (" + std::string(reason) + "); the file is damaged");
}

size_t GzipReader::read(void* to, size_t bytes) {
    auto* out = static_cast<unsigned char*>(to);
    size_t filled = 0;
    while (filled < bytes && !ended_) {
        const size_t before = offset_;
        if (gzipped_) {
            stream_->next_out = out + filled;
            stream_->avail_out = unsigned(std::min<size_t>(bytes - filled, 1u << 30));
            inflate_some();
        } else {
            if (stream_->avail_in == 0) ended_ = !refill();
            const unsigned step = unsigned(std::min<size_t>(bytes - filled, stream_->avail_in));
            std::memcpy(out + filled, stream_->next_in, step);
            stream_->next_in += step;
            stream_->avail_in -= step;
            offset_ += step;
        }
        filled += offset_ - before;
    }
    while (ended_ && refill()) stream_->avail_in = 0;  // the digests are of the whole file
    return filled;
}

}  // namespace convoy
