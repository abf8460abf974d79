// Reads the bytes of an HDF5 file's structure without HDF5: blocks of the file, and the numbers in
// them. Callers check every number before they use it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace convoy::h5 {

/// The address that stands for an object that does not exist.
constexpr uint64_t no_address = ~uint64_t(0);

/// Thrown if an object is not as in Convoy's files; `part` names the part that differs.
struct Unfit {
    std::string part;
};

/// Throws Unfit unless `fits`.
void expect(bool fits, const char* part);

/// Reads the numbers of a block, one after the other. Throws Unfit at the end of the block.
class Fields {
public:
    explicit Fields(std::string_view bytes) : bytes_(bytes) {}
    std::string_view take(uint64_t count);
    /// Returns the number in the next `count` bytes, at most 8, the lowest byte first.
    uint64_t number(size_t count);
    /// Throws Unfit unless the next `count` bytes are this number.
    void expect_number(uint64_t value, size_t count, const char* part);
    size_t left() const { return bytes_.size(); }

private:
    std::string_view bytes_;
};

/// Returns how many bytes HDF5 uses for any number up to `most`.
size_t bytes_for(uint64_t most);

/// Reads the blocks of a file. No two blocks may overlap, because HDF5 caches one block per address
/// and would take it for a block of another size.
class Blocks {
public:
    /// `fd` must stay open.
    Blocks(int fd, const std::string& path);
    /// Records a block of `bytes` bytes, and returns its first `wanted` bytes. Throws Unfit if it
    /// lies outside the file, overlaps a recorded block, or does not begin with `signature`. Throws
    /// Inaccessible if it cannot be read.
    std::string take(uint64_t address, uint64_t bytes, std::string_view signature, uint64_t wanted);
    std::string take(uint64_t address, uint64_t bytes, std::string_view signature) {
        return take(address, bytes, signature, bytes);
    }
    /// Reads bytes of a block that is taken separately, before or after this call.
    std::string look_at(uint64_t address, uint64_t bytes) const;
    /// Counts chunks that an index can hold, because HDF5 visits each of their places, even in a
    /// hole of the file. Throws Unfit for more than 4 million in the file.
    void count_chunks(uint64_t chunks);
    /// True if two blocks overlapped.
    bool overlapped() const { return overlapped_; }

private:
    int fd_;
    uint64_t size_ = 0;
    const std::string& path_;
    std::map<uint64_t, uint64_t> taken_;  // end by address
    bool overlapped_ = false;
    uint64_t chunks_ = 0;
};

}  // namespace convoy::h5
