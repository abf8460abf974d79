// The checksum is Jenkins' lookup3, as HDF5's format specification says.
#include "data/hdf5_superblock.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/file_error.h"
#include "base/shell_word.h"

namespace convoy::h5 {
namespace {

constexpr size_t covered = 44;                    // bytes before the checksum, if addresses have 8 bytes
constexpr size_t length = covered + 4;            // of the superblock
constexpr size_t version_at = 8, address_at = 9;  // bytes that hold the version, and the size of an address
constexpr size_t length_at = 10, flags_at = 11;   // bytes of the size of a length, and the consistency flags
constexpr size_t base_at = 12, extension_at = 20, end_at = 28, root_at = 36;  // addresses
constexpr unsigned written = 1, written_for_readers = 4;  // flags: open for writing; open for writing in SWMR mode

constexpr char signature[] = "\x89HDF\r\n\x1a\n";

uint64_t address(const unsigned char* bytes, size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
}

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

bool has_signature(const InputBytes& file, int64_t at) {
    constexpr int64_t bytes = sizeof signature - 1;
    char begin[bytes];
    if (file.size() < at + bytes) return false;
    file.read(at, bytes, begin);
    return std::memcmp(begin, signature, bytes) == 0;
}

/// Returns true if HDF5's signature is at byte 512, 1024, 2048, …, where HDF5 also looks for it.
bool is_behind_a_user_block(const InputBytes& file) {
    for (int64_t at = 512; at < file.size(); at *= 2)
        if (has_signature(file, at)) return true;
    return false;
}

bool is_sealed(const unsigned char* bytes) {
    uint32_t sum = 0;
    std::memcpy(&sum, bytes + covered, sizeof sum);
    return sum == checksum_of(bytes);
}

}  // namespace

std::optional<uint64_t> check_superblock(const InputBytes& file) {
    const std::string& path = file.path();
    if (!has_signature(file, 0))
        fail(Exit::bad_input, path + (is_behind_a_user_block(file)
                                          ? std::string(": does not begin with its HDF5 part; ") + write_as_v110
                                          : ": is not an HDF5 file (or its first bytes are damaged); make it again"));
    const auto truncated = [&] {
        fail(Exit::bad_input,
             path + ": is truncated (" + std::to_string(file.size()) + " bytes are left); make it again");
    };
    if (file.size() < int64_t(length)) truncated();
    unsigned char bytes[length];
    file.read(0, length, bytes);
    if (!is_version_3(bytes) || bytes[length_at] != 8)
        fail(Exit::bad_input,
             path + ": is in an old format of HDF5, whose structure has no checksums; " + write_as_v110);
    if (!is_sealed(bytes)) return std::nullopt;
    constexpr uint64_t none = ~uint64_t(0);
    if (address(bytes, base_at) != 0 || address(bytes, extension_at) != none)
        fail(Exit::bad_input, path + ": has a user block or file space settings, as no file of Convoy has; " +
                                  "write it again with libver='v110' alone (input/README.md)");
    if ((bytes[flags_at] & (written | written_for_readers)) != 0)
        throw Inaccessible(path +
                           ": is open for writing elsewhere, or the program that wrote to it was killed; close it "
                           "there or, if no program has it open, clear that mark: h5clear -s " +
                           shell_word(path));
    if (address(bytes, end_at) > uint64_t(file.size())) truncated();
    return address(bytes, root_at);
}

void seal_superblock(std::vector<unsigned char>& bytes) {
    require(bytes.size() > length && is_version_3(bytes.data()), "V110 files have a version 3 superblock");
    const uint32_t sum = checksum_of(bytes.data());
    std::memcpy(&bytes[covered], &sum, sizeof sum);
}

}  // namespace convoy::h5
