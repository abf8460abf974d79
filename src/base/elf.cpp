#include "base/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/descriptor.h"
#include "base/durable.h"

namespace convoy {
namespace {

/// Reads `count` records at `offset`; returns none if the file ends before the last one.
template <class Record> std::vector<Record> read_records(const Descriptor& file, uint64_t offset, uint64_t count) {
    constexpr uint64_t most_bytes = 64 << 20;  // larger than the names of any program
    if (count > most_bytes / sizeof(Record)) return {};
    std::vector<Record> records(count);
    const size_t bytes = count * sizeof(Record);
    if (read_all(file.fd(), records.data(), bytes, offset) != ssize_t(bytes)) return {};
    return records;
}

/// Converts an address of the loaded program to an offset in the file; 0 if it is in no segment.
uint64_t offset_of(uint64_t address, const std::vector<Elf64_Phdr>& segments) {
    for (const Elf64_Phdr& s : segments)
        if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
            return s.p_offset + (address - s.p_vaddr);
    return 0;
}

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status{};
    if (!file.valid() || ::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    const std::vector<Elf64_Ehdr> header = read_records<Elf64_Ehdr>(file, 0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        header[0].e_ident[EI_CLASS] != ELFCLASS64)
        return {};
    const auto segments = read_records<Elf64_Phdr>(file, header[0].e_phoff, header[0].e_phnum);
    const auto dynamic =
        std::find_if(segments.begin(), segments.end(), [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
    if (dynamic == segments.end()) return {};
    const auto entries = read_records<Elf64_Dyn>(file, dynamic->p_offset, dynamic->p_filesz / sizeof(Elf64_Dyn));
    uint64_t table = 0, bytes = 0;
    for (const Elf64_Dyn& e : entries) {
        if (e.d_tag == DT_STRTAB) table = e.d_un.d_ptr;
        if (e.d_tag == DT_STRSZ) bytes = e.d_un.d_val;
    }
    std::vector<char> text = read_records<char>(file, offset_of(table, segments), bytes);
    text.push_back('\0');
    std::vector<std::string> names;
    for (const Elf64_Dyn& e : entries)
        if (e.d_tag == DT_NEEDED && e.d_un.d_val < text.size()) names.emplace_back(&text[e.d_un.d_val]);
    return names;
}

}  // namespace convoy
