// Reads a file that may or may not be gzipped, as one stream of plain bytes. Uses zlib because
// libarchive does not compare the CRC at the end of the stream: a flipped bit in a .gz file must
// be an error, not a wrong pixel.
#pragma once
#include <cstddef>
#include <string>

struct gzFile_s;

namespace convoy {

class GzipReader {
public:
    /// Throws Exit::bad_input naming `path` if it cannot be opened.
    explicit GzipReader(const std::string& path);
    ~GzipReader();
    GzipReader(const GzipReader&) = delete;
    GzipReader& operator=(const GzipReader&) = delete;

    /// Fills `to`. Returns fewer than `bytes` only at the end of the stream, after comparing its
    /// CRC. Throws Exit::bad_input for a truncated or damaged stream, naming file and offset.
    size_t read(void* to, size_t bytes);
    const std::string& path() const { return path_; }
    /// Returns the number of plain bytes read so far.
    size_t offset() const { return offset_; }

private:
    std::string path_;
    gzFile_s* file_ = nullptr;
    size_t offset_ = 0;
};

}  // namespace convoy
