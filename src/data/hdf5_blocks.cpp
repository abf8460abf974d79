#include "data/hdf5_blocks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/durable.h"
#include "base/file_error.h"

namespace convoy::h5 {

void expect(bool fits, const char* part) {
    if (!fits) throw Unfit{part};
}

std::string_view Fields::take(uint64_t count) {
    expect(count <= bytes_.size(), "a part that ends too early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
}

uint64_t Fields::number(size_t count) {
    expect(count <= 8, "a number of more than 8 bytes");
    uint64_t value = 0;
    const std::string_view digits = take(count);
    for (size_t i = count; i-- > 0;) value = value << 8 | uint8_t(digits[i]);
    return value;
}

void Fields::expect_number(uint64_t value, size_t count, const char* part) { expect(number(count) == value, part); }

size_t bytes_for(uint64_t most) { return most == 0 ? 1 : (size_t(std::bit_width(most)) - 1) / 8 + 1; }

Blocks::Blocks(int fd, const std::string& path) : fd_(fd), path_(path) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) cannot_read(path, errno, "check the file system");
    size_ = uint64_t(status.st_size);
}

std::string Blocks::look_at(uint64_t address, uint64_t bytes) const {
    constexpr uint64_t most = uint64_t(17) << 20;  // an attribute has up to 16 MiB
    expect(address <= size_ && bytes <= size_ - address && bytes <= most, "a part outside of the file");
    std::string all(bytes, '\0');
    const ssize_t got = read_all(fd_, all.data(), bytes, address);
    if (got < 0) cannot_read(path_, errno, "check the file system");
    expect(size_t(got) == bytes, "a part outside of the file");
    return all;
}

std::string Blocks::take(uint64_t address, uint64_t bytes, std::string_view signature, uint64_t wanted) {
    constexpr size_t most_taken = 1 << 22;  // limits the memory of the map to a few hundred MiB
    expect(address <= size_ && bytes <= size_ - address, "a part outside of the file");
    std::string block = look_at(address, std::min(bytes, wanted));
    expect(block.starts_with(signature), "a part of another kind than is said");
    expect(taken_.size() < most_taken, "many parts");
    const uint64_t end = address + bytes;
    const auto next = taken_.upper_bound(address);
    if ((next != taken_.end() && next->first < end) || (next != taken_.begin() && std::prev(next)->second > address))
        overlapped_ = true;
    expect(!overlapped_, "parts that overlap");
    taken_.emplace_hint(next, address, end);
    return block;
}

void Blocks::count_chunks(uint64_t chunks) {
    constexpr uint64_t most = 1 << 20;
    expect(chunks <= most - chunks_, "too many chunks");
    chunks_ += chunks;
}

}  // namespace convoy::h5
