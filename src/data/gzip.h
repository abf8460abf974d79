// Reads a file that may or may not be gzipped, as one stream of plain bytes. Uses zlib because
// libarchive does not compare the CRC at the end of the stream: a flipped bit in a .gz file must
// be an error, not a wrong pixel.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/digest.h"
#include "data/input_bytes.h"

struct z_stream_s;

namespace convoy {

class GzipReader {
public:
    /// Limit of plain bytes per compressed byte for images. The format allows up to 1032.
    static constexpr uint64_t most_growth = 200;
    enum class Digests { none, of_file };
    /// Throws Exit::bad_input naming `path` if it cannot be opened, or is no regular file.
    explicit GzipReader(const std::string& path, Digests = Digests::none);

    /// Fills `to`. Returns fewer than `bytes` only at the end of the stream, after comparing its
    /// CRC. Throws Exit::bad_input for a truncated or damaged stream, naming file and offset.
    size_t read(void* to, size_t bytes);
    /// Return the digests of the file's own bytes. They are those that were read, because the file
    /// may be replaced meanwhile. Call each once, after read() has reached the end of the stream.
    std::string md5() { return md5_->hex(); }
    std::string sha256() { return sha256_->hex(); }
    const std::string& path() const { return file_.path(); }
    /// Returns the bytes of the file itself.
    uint64_t file_bytes() const { return uint64_t(file_.size()); }
    /// Returns the number of plain bytes read so far.
    size_t offset() const { return offset_; }

private:
    bool refill();
    bool begins_stream();
    void inflate_some();
    [[noreturn]] void fail_at(const std::string& problem) const;

    InputBytes file_;
    std::optional<Digest> md5_, sha256_;
    std::vector<unsigned char> input_;
    int64_t read_ = 0;  // bytes of the file in input_ or before
    std::unique_ptr<z_stream_s, void (*)(z_stream_s*)> stream_;
    bool gzipped_ = false, ended_ = false;
    size_t offset_ = 0;
};

/// Returns the number of bytes that a file of `packed` bytes may unpack to: most_growth times as
/// many, but 64 MiB at least.
constexpr uint64_t most_unpacked(uint64_t packed) {
    return std::max(uint64_t(64) << 20, GzipReader::most_growth * packed);
}

}  // namespace convoy
