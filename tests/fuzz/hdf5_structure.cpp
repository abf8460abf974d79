// Changes the structure of an HDF5 file of format V110 and recomputes its checksums. It finds the
// parts that have a checksum without knowing their layout. Each begins with four letters, and ends
// where Jenkins' lookup3 of the bytes so far equals the next word.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_bytes.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

uint32_t word(const char* at) {
    uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
}

uint32_t lookup3(std::string_view bytes) {
    uint32_t a = 0xdeadbeef + uint32_t(bytes.size()), b = a, c = a;
    const auto mix = [](uint32_t& to, uint32_t& from, uint32_t& other, int turn) {
        to -= from;
        to ^= std::rotl(from, turn);
        from += other;
    };
    for (; bytes.size() > 12; bytes.remove_prefix(12)) {
        a += word(bytes.data());
        b += word(bytes.data() + 4);
        c += word(bytes.data() + 8);
        mix(a, c, b, 4), mix(b, a, c, 6), mix(c, b, a, 8), mix(a, c, b, 16), mix(b, a, c, 19), mix(c, b, a, 4);
    }
    if (bytes.empty()) return c;
    char last[12] = {};
    std::memcpy(last, bytes.data(), bytes.size());
    a += word(last);
    b += word(last + 4);
    c += word(last + 8);
    const auto finish = [](uint32_t& to, uint32_t from, int turn) {
        to ^= from;
        to -= std::rotl(from, turn);
    };
    finish(c, b, 14), finish(a, c, 11), finish(b, a, 25), finish(c, b, 16), finish(a, c, 4), finish(b, a, 14);
    finish(c, b, 24);
    return c;
}

/// A part of the file. Its checksum is at `sum` and covers all bytes before it. If `inside`, it
/// covers all bytes of the part, with zeros in place of the checksum.
struct Part {
    size_t first, bytes;
    std::optional<size_t> sum;
    bool inside = false;
};

uint32_t sum_of(const std::string& file, const Part& part) {
    std::string bytes = file.substr(part.first, part.bytes);
    if (part.inside) std::memset(&bytes[*part.sum - part.first], 0, 4);
    return lookup3(bytes);
}

/// Blocks of fractal heaps have their checksum after an offset of 1 to 8 bytes.
std::optional<Part> heap_block(const std::string& file, size_t first) {
    for (size_t bytes = 512; bytes <= file.size() - first; bytes *= 2)
        for (size_t offset = 1; offset <= 8; ++offset) {
            const Part part{first, bytes, first + 13 + offset, true};
            if (sum_of(file, part) == word(&file[*part.sum])) return part;
        }
    return std::nullopt;
}

std::optional<Part> part_at(const std::string& file, size_t first) {
    constexpr size_t longest = 1 << 14;
    const std::string_view name = std::string_view(file).substr(first, 4);
    if (name == "GCOL") return Part{first, std::min<size_t>(256, file.size() - first), std::nullopt};
    if (name == "FHDB") return heap_block(file, first);
    for (size_t bytes = 8; bytes < longest && first + bytes + 4 <= file.size(); ++bytes)
        if (word(&file[first + bytes]) == lookup3(std::string_view(file).substr(first, bytes)))
            return Part{first, bytes, first + bytes};
    return std::nullopt;
}

std::vector<Part> parts_of(const std::string& file) {
    constexpr std::string_view names[] = {"\x89HDF", "OHDR", "OCHK", "FRHP", "FHDB", "FHIB", "BTHD", "BTIN",
                                          "BTLF",    "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB", "GCOL"};
    std::vector<Part> parts;
    for (size_t at = 0; at + 8 < file.size(); ++at)
        if (std::find(std::begin(names), std::end(names), std::string_view(file).substr(at, 4)) != std::end(names))
            if (const std::optional<Part> part = part_at(file, at)) parts.push_back(*part);
    return parts;
}

uint64_t odd_number(const std::string& file, const std::vector<Part>& parts, FuzzBytes& c) {
    switch (c.below(8)) {
        case 0: return 0;
        case 1: return ~uint64_t(0);
        case 2: return file.size() - c.number(1);
        case 3: return parts[c.below(parts.size())].first;
        case 4: return uint64_t(1) << c.below(64);
        case 5: return (uint64_t(1) << c.below(64)) - 1;
        default: return c.number(2);
    }
}

void seal(std::string& file, const std::vector<Part>& parts) {
    for (const Part& part : parts)
        if (part.sum) {
            const uint32_t sum = sum_of(file, part);
            std::memcpy(&file[*part.sum], &sum, sizeof sum);
        }
}

/// Returns true if the encoding of an integer or a float that uses all of its bits begins at `at`.
/// Its fields are class and version, flags (3), bytes (4), offset (2) and precision (2); for
/// floats, also places and sizes of the fields.
bool is_number_type(const std::string& file, size_t at) {
    const uint32_t bytes = word(&file[at + 4]), bits = word(&file[at + 8]);
    const bool is_number = (file[at] & 0x0e) == 0 && (file[at] & 0xf0) <= 0x30 && file[at + 3] == 0;
    return is_number && (file[at] & 0xf0) != 0 && bytes >= 1 && bytes <= 8 && bits == bytes * 8 << 16;
}

}  // namespace

void move_bits_of_types(const std::string& path, std::span<const uint8_t> bytes) {
    FuzzBytes c(bytes);
    std::string file = read_file(path);
    const std::vector<Part> parts = parts_of(file);
    std::vector<size_t> types;
    for (const Part& part : parts)
        for (size_t at = part.first; at + 20 < part.first + part.bytes; ++at)
            if (is_number_type(file, at)) types.push_back(at);
    for (size_t edits = c.below(3) + 1; edits > 0 && !types.empty(); --edits) {
        const size_t type = types[c.number(2) % types.size()];
        const size_t field = c.yes() ? 8 : 10 + c.below((file[type] & 1) ? 10 : 2);
        const uint64_t value = c.yes() ? uint64_t(file[type + 10]) : c.number(c.yes() ? 1 : 2);
        std::memcpy(&file[type + field], &value, field == 8 ? 2 : 1);
    }
    seal(file, parts);
    write_file(path, file);
}

void make_structure_hostile(const std::string& path, std::span<const uint8_t> bytes) {
    FuzzBytes c(bytes);
    std::string file = read_file(path);
    const std::vector<Part> parts = parts_of(file);
    require(parts.size() > 3, "a file of format V110 has a superblock, a root group and more");
    for (size_t edits = c.below(6) + 1; edits > 0; --edits) {
        const Part& part = parts[c.below(parts.size())];
        const size_t at = part.first + c.number(2) % part.bytes;
        const size_t width = std::min<size_t>(size_t(1) << c.below(4), part.first + part.bytes - at);
        uint64_t value = c.yes() ? odd_number(file, parts, c) : c.number(1);
        if (c.yes()) {
            uint64_t old = 0;
            std::memcpy(&old, &file[at], width);
            value = old + (c.yes() ? value : -value);
        }
        std::memcpy(&file[at], &value, width);
    }
    seal(file, parts);
    write_file(path, file);
}

void change_structure(const std::string& path, const StructureChange& change) {
    std::string file = read_file(path);
    const std::vector<Part> parts = parts_of(file);
    size_t left = change.which;
    for (const Part& part : parts)
        if (std::string_view(file).substr(part.first, 4) == change.block && left-- == 0) {
            require(change.at + change.width <= part.bytes, "the change lies in its block");
            std::memcpy(&file[part.first + change.at], &change.value, change.width);
            seal(file, parts);
            return write_file(path, file);
        }
    require(false, "the file has such a block");
}

}  // namespace convoy::test
