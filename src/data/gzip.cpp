// Implements GzipReader with zlib's gzread, which passes files that are not gzipped through
// unchanged.
#include "data/gzip.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "base/descriptor.h"
#include "base/file_error.h"

namespace convoy {

GzipReader::GzipReader(const std::string& path) : file_(path) {
    Descriptor own(::fcntl(file_.descriptor(), F_DUPFD_CLOEXEC, 0));
    stream_ = own.valid() ? gzdopen(own.fd(), "rb") : nullptr;
    if (!stream_) cannot_read(path, errno, "check the path");
    [[maybe_unused]] const int closed_with_stream = own.release();
    gzbuffer(stream_, 1 << 18);
}

GzipReader::~GzipReader() { gzclose_r(stream_); }

size_t GzipReader::read(void* to, size_t bytes) {
    size_t filled = 0;
    while (filled < bytes) {
        const unsigned step = unsigned(std::min<size_t>(bytes - filled, 1u << 30));  // gzread counts in int
        const int got = gzread(stream_, static_cast<char*>(to) + filled, step);
        int code = Z_OK;
        const char* reason = gzerror(stream_, &code);
        const int system = errno;
        const std::string place =
            path() + ": at byte " + std::to_string(offset_ + size_t(std::max(got, 0))) + " of its content";
        if (code == Z_ERRNO) cannot_read(place, system, "check the file system");
        const std::string at = place + ": ";
        if (code == Z_BUF_ERROR)
            fail(Exit::bad_input, at + "the compressed stream ends too early; the file is truncated, get it again");
        if (got < 0 || code < 0)
            fail(Exit::bad_input, at + "cannot be decompressed (" + reason + "); the file is damaged, get it again");
        if (got == 0) break;
        filled += size_t(got);
        offset_ += size_t(got);
    }
    return filled;
}

}  // namespace convoy
