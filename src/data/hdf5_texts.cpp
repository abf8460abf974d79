// Reads texts of variable length. An attribute holds 16 bytes per text: its length (4), the address
// of a heap (8) and an index in that heap (4). Neither HDF5's heaps nor these references have
// checksums.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/durable.h"
#include "base/file_error.h"
#include "data/hdf5_failure.h"
#include "data/hdf5_untrusted.h"

namespace convoy::h5 {
namespace {

constexpr uint64_t heap_header = 16, object_header = 16, most_heap_bytes = 16 << 20;
constexpr uint64_t most_read = 256 << 20;  // limit for the heaps of all texts of a file; Convoy's heaps have 4 KiB each
// Sizes of an attribute in the file, by HDF5's format specification (version 3, a scalar): header,
// name, type, extent, reference.
constexpr size_t message_header = 9, most_name = 256, most_type = 64, extent_bytes = 4, reference_bytes = 16;
constexpr size_t longest_message = message_header + most_name + most_type + extent_bytes + reference_bytes;

template <class T> T number(std::string_view bytes, size_t at) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

/// Reads the bytes of a file that HDF5 has open.
class OpenBytes {
public:
    OpenBytes(hid_t file, const std::string& path) : path_(path), fd_(descriptor_of(file, path)) {}
    const std::string& path() const { return path_; }
    /// Returns `bytes` bytes from `at` on, or fewer at the end of the file.
    std::string read(uint64_t at, size_t bytes) const {
        std::string all(bytes, '\0');
        const ssize_t got = read_all(fd_, all.data(), bytes, at);
        if (got < 0) cannot_read(path_, errno, "check the file system");
        all.resize(size_t(got));
        return all;
    }
    /// Calls visit(bytes) for all blocks of the file up to `end`. Blocks overlap, so that each
    /// message lies in one of them as a whole.
    void each_block(uint64_t end, const std::function<void(std::string_view)>& visit) const {
        constexpr size_t block = 1 << 20, with_overlap = block + longest_message - 1;
        for (uint64_t at = 0; at < end; at += block) visit(read(at, std::min<uint64_t>(with_overlap, end - at)));
    }

private:
    const std::string& path_;
    const int fd_;
};

/// Returns the text that `reference` names; nothing unless heap and reference agree. Subtracts the
/// bytes that it reads from `left`, because any number of references may name the same text. Throws
/// Exit::bad_input if fewer are left.
std::optional<std::string> text_of(const OpenBytes& file, const std::string& reference, uint64_t& left) {
    const auto length = number<uint32_t>(reference, 0), index = number<uint32_t>(reference, 12);
    const auto address = number<uint64_t>(reference, 4);
    if (length == 0 && address == 0) return "";
    const std::string header = file.read(address, heap_header);
    if (header.size() < heap_header || !header.starts_with("GCOL") || header[4] != 1) return std::nullopt;
    const auto bytes = number<uint64_t>(header, 8);
    if (bytes < heap_header || bytes > most_heap_bytes) return std::nullopt;
    if (bytes > left)
        fail(Exit::bad_input, file.path() + ": its texts lie in heaps of more than 256 MiB; make it again");
    left -= bytes;
    const std::string heap = file.read(address, bytes);
    if (heap.size() < bytes) return std::nullopt;
    for (uint64_t at = heap_header; bytes - at >= object_header;) {
        const auto object = number<uint16_t>(heap, at);
        const auto size = number<uint64_t>(heap, at + 8);
        if (object == 0 || size > bytes - at - object_header) return std::nullopt;  // free space comes last
        if (object == index)
            return size == length ? std::optional(heap.substr(at + object_header, size)) : std::nullopt;
        at += object_header + (size + 7) / 8 * 8;
        if (at > bytes) return std::nullopt;
    }
    return std::nullopt;
}

struct References {
    std::map<std::string, std::vector<std::string>> by_name;  // references by the attribute's name
    uint64_t left = most_read;                                // bytes of heaps that may still be read
};

/// Records the attribute at the start of `bytes`, if there is one that holds one text of variable
/// length.
void note_attribute(std::string_view bytes, References& found) {
    if (bytes.size() < message_header || bytes[0] != 3 || bytes[1] != 0 || number<uint16_t>(bytes, 6) != extent_bytes)
        return;
    const size_t name_bytes = number<uint16_t>(bytes, 2), type_bytes = number<uint16_t>(bytes, 4);
    if (name_bytes < 2 || name_bytes > most_name || type_bytes < 8 || type_bytes > most_type) return;
    const size_t type = message_header + name_bytes, extent = type + type_bytes, reference = extent + extent_bytes;
    if (bytes.size() < reference + reference_bytes) return;
    const std::string_view name = bytes.substr(message_header, name_bytes - 1);
    const bool is_text = (bytes[type] & 0x0f) == H5T_VLEN && (bytes[type + 1] & 0x0f) == 1;
    if (name.find('\0') != name.npos || bytes[type - 1] != 0 || !is_text || number<uint32_t>(bytes, extent) != 2)
        return;
    found.by_name[std::string(name)].emplace_back(bytes.substr(reference, reference_bytes));
}

/// Returns the references to texts in the whole file. Caches those of the file that was read last.
References& references_in(hid_t id, const OpenBytes& file, unsigned long file_number) {
    static unsigned long known = 0;
    static References found;
    if (file_number == known) return found;
    found = References();
    haddr_t end = 0;
    if (H5Fget_eoa(id, &end) < 0) fail_to_read(file.path(), "its length", "make it again");
    file.each_block(end, [&](std::string_view bytes) {
        for (; !bytes.empty(); bytes.remove_prefix(1))
            if (bytes[0] == 3) note_attribute(bytes, found);
    });
    known = file_number;
    return found;
}

}  // namespace

std::optional<std::string> variable_text(hid_t attribute, const std::string& name, const std::string& path) {
    const Handle file(H5Iget_file_id(attribute));
    const OpenBytes bytes(file, path);
    References& all = references_in(file, bytes, number_of(file, path));
    const auto found = all.by_name.find(name);
    if (found == all.by_name.end()) return std::nullopt;
    for (auto reference = found->second.rbegin(); reference != found->second.rend(); ++reference)
        if (const std::optional<std::string> text = text_of(bytes, *reference, all.left))
            return text->substr(0, text->find('\0'));
    return std::nullopt;
}

}  // namespace convoy::h5
