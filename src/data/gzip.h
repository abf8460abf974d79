// Reads a file that may or may not be gzipped, as one stream of plain bytes. Uses zlib because
// libarchive does not compare the CRC at the end of the stream: a flipped bit in a .gz file must
// be an error, not a wrong pixel.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "data/input_bytes.h"

struct gzFile_s;

namespace convoy {

class GzipReader {
public:
    /// Limit of plain bytes per compressed byte for images. The format allows up to 1032.
    static constexpr uint64_t most_growth = 200;
    /// Throws Exit::bad_input naming `path` if it cannot be opened, or is no regular file.
    explicit GzipReader(const std::string& path);
    ~GzipReader();
    GzipReader(const GzipReader&) = delete;
    GzipReader& operator=(const GzipReader&) = delete;

    /// Fills `to`. Returns fewer than `bytes` only at the end of the stream, after comparing its
    /// CRC. Throws Exit::bad_input for a truncated or damaged stream, naming file and offset.
    size_t read(void* to, size_t bytes);
    const std::string& path() const { return file_.path(); }
    /// Returns the bytes of the file itself.
    uint64_t file_bytes() const { return uint64_t(file_.size()); }
    /// Returns the number of plain bytes read so far.
    size_t offset() const { return offset_; }

private:
    InputBytes file_;
    gzFile_s* stream_ = nullptr;
    size_t offset_ = 0;
};

/// Returns the number of bytes that a file of `packed` bytes may unpack to: most_growth times as
/// many, but 64 MiB at least.
constexpr uint64_t most_unpacked(uint64_t packed) {
    return std::max(uint64_t(64) << 20, GzipReader::most_growth * packed);
}

}  // namespace convoy
