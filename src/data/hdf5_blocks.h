// The bytes of an HDF5 file's structure, read without HDF5: blocks of the file, and the numbers in
// them. Whoever reads them checks every number before using it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace convoy::h5 {

/// Address of what is not there.
constexpr uint64_t no_address = ~uint64_t(0);

/// Thrown: what part of an object is not as in Convoy's files.
struct Unfit {
    std::string part;
};

/// Throws Unfit unless `fits`.
void expect(bool fits, const char* part);

/// Numbers of a block, taken one after the other. Throws Unfit at its end.
class Fields {
public:
    explicit Fields(std::string_view bytes) : bytes_(bytes) {}
    std::string_view take(uint64_t count);
    /// The next `count` bytes, the lowest one first; at most 8.
    uint64_t number(size_t count);
    /// Throws Unfit unless the next `count` bytes are this number.
    void expect_number(uint64_t value, size_t count, const char* part);
    size_t left() const { return bytes_.size(); }

private:
    std::string_view bytes_;
};

/// Bytes that hold any number up to `most`, as HDF5 counts them.
size_t bytes_for(uint64_t most);

/// Reads the blocks of a file, of which no two may overlap: HDF5 keeps one block per address, and
/// would take it for one of another size.
class Blocks {
public:
    /// `fd` must stay open.
    Blocks(int fd, const std::string& path);
    /// Returns the first `wanted` of the block's `bytes`. Throws Unfit if it lies outside of the
    /// file or does not begin with `signature`; Inaccessible if it cannot be read.
    std::string take(uint64_t address, uint64_t bytes, std::string_view signature, uint64_t wanted);
    std::string take(uint64_t address, uint64_t bytes, std::string_view signature) {
        return take(address, bytes, signature, bytes);
    }
    /// Reads bytes that belong to a block that is taken before or later.
    std::string look_at(uint64_t address, uint64_t bytes) const;
    /// Whether two blocks overlapped.
    bool overlapped() const { return overlapped_; }

private:
    int fd_;
    uint64_t size_ = 0;
    const std::string& path_;
    std::map<uint64_t, uint64_t> taken_;  // end by address
    bool overlapped_ = false;
};

}  // namespace convoy::h5
