// The checksum is Jenkins' lookup3, as HDF5's format specification says.
#include "data/hdf5_superblock.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "data/input_bytes.h"

namespace convoy::h5 {
namespace {

constexpr size_t covered = 44;                            // bytes before the checksum, if addresses have 8 bytes
constexpr size_t length = covered + 4;                    // of the superblock
constexpr size_t version_at = 8, address_at = 9;          // bytes that hold the version, and the size of an address
constexpr size_t flags_at = 11;                           // the byte of the consistency flags
constexpr unsigned written = 1, written_for_readers = 4;  // flags: open for writing; so, in SWMR mode

bool is_version_3(const unsigned char* bytes) { return bytes[version_at] == 3 && bytes[address_at] == 8; }

uint32_t checksum_of(const unsigned char* bytes) {
    uint32_t word[covered / 4];
    std::memcpy(word, bytes, covered);
    const auto mix = [](uint32_t& to, uint32_t& from, uint32_t& other, int turn) {
        to -= from;
        to ^= std::rotl(from, turn);
        from += other;
    };
    const auto finish = [](uint32_t& to, uint32_t from, int turn) {
        to ^= from;
        to -= std::rotl(from, turn);
    };
    uint32_t a = 0xdeadbeef + covered, b = a, c = a;
    for (int i = 0; i < 9; i += 3) {
        a += word[i];
        b += word[i + 1];
        c += word[i + 2];
        mix(a, c, b, 4);
        mix(b, a, c, 6);
        mix(c, b, a, 8);
        mix(a, c, b, 16);
        mix(b, a, c, 19);
        mix(c, b, a, 4);
    }
    a += word[9];
    b += word[10];
    finish(c, b, 14);
    finish(a, c, 11);
    finish(b, a, 25);
    finish(c, b, 16);
    finish(a, c, 4);
    finish(b, a, 14);
    finish(c, b, 24);
    return c;
}

}  // namespace

void seal_superblock(std::vector<unsigned char>& bytes) {
    require(bytes.size() > length && is_version_3(bytes.data()), "V110 files have a version 3 superblock");
    const uint32_t sum = checksum_of(bytes.data());
    std::memcpy(&bytes[covered], &sum, sizeof sum);
}

bool is_open_for_writing(const std::string& path) {
    const InputBytes file(path);
    if (file.size() < int64_t(length)) return false;
    unsigned char bytes[length];
    file.read(0, length, bytes);
    uint32_t sum = 0;
    std::memcpy(&sum, bytes + covered, sizeof sum);
    return is_version_3(bytes) && (bytes[flags_at] & (written | written_for_readers)) != 0 && sum == checksum_of(bytes);
}

}  // namespace convoy::h5
