// PKWARE's APPNOTE describes the format: at the end is a record with the place of the directory,
// and before it a second one for files of more than 4 GiB.
#include "data/zip_directory.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/shorten.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr int64_t end_bytes = 22, locator_bytes = 20, end64_bytes = 56, entry_bytes = 46, local_bytes = 30;
constexpr int64_t most_directory_bytes = 64 << 20;
constexpr uint64_t folder_bit = 0x10;      // of the attributes that MS-DOS has
constexpr uint64_t in_extra = 0xffffffff;  // marks a value that is in the extra field for large files

[[noreturn]] void refuse(const InputBytes& file, const std::string& what) {
    fail(Exit::bad_input,
         file.path() + ": " + what + "; it is no file of torch.save(net.state_dict(), FILE), or damaged: get it again");
}

uint64_t number(const uint8_t* from, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | from[i];
    return value;
}

/// Reads bytes that must be in the file.
std::vector<uint8_t> read(const InputBytes& file, uint64_t offset, uint64_t bytes) {
    if (offset > uint64_t(file.size()) || bytes > uint64_t(file.size()) - offset)
        refuse(file, "its zip directory leads beyond the end");
    std::vector<uint8_t> content(bytes);
    file.read(int64_t(offset), int64_t(bytes), content.data());
    return content;
}

struct Directory {
    uint64_t offset, bytes, members;
};

Directory find_directory(const InputBytes& file) {
    constexpr int64_t most_comment = 0xffff;
    const int64_t looked_at = std::min(file.size(), end_bytes + most_comment), start = file.size() - looked_at;
    const std::vector<uint8_t> tail = read(file, uint64_t(start), uint64_t(looked_at));
    int64_t at = looked_at - end_bytes;
    while (at >= 0 && number(&tail[at], 4) != 0x06054b50) --at;
    // A file with two directories could have other weights for other programs.
    if (at < 0 || at + end_bytes + int64_t(number(&tail[size_t(at) + 20], 2)) != looked_at)
        refuse(file, "has no zip directory");
    const uint8_t* end = &tail[at];
    Directory found{number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
    uint64_t behind = uint64_t(start + at);
    if (at >= locator_bytes && number(end - locator_bytes, 4) == 0x07064b50) {
        const std::vector<uint8_t> end64 = read(file, number(end - locator_bytes + 8, 8), uint64_t(end64_bytes));
        if (number(end64.data(), 4) != 0x06064b50) refuse(file, "has a damaged zip directory");
        behind = number(end - locator_bytes + 8, 8);
        if (behind + uint64_t(end64_bytes + locator_bytes) != uint64_t(start + at))
            refuse(file, "its zip directory is not at its end");
        found = {number(&end64[48], 8), number(&end64[40], 8), number(&end64[32], 8)};
    }
    if (found.bytes > uint64_t(most_directory_bytes))
        refuse(file, "claims a zip directory of " + std::to_string(found.bytes) + " bytes");
    if (found.offset > behind || found.offset + found.bytes != behind)
        refuse(file, "its zip directory is not at its end");
    return found;
}

/// Replaces marked sizes and offsets by those in the extra field for large files.
void take_from_extra(const InputBytes& file, const uint8_t* extra, size_t bytes, uint64_t (&values)[3]) {
    for (size_t at = 0; at + 4 <= bytes;) {
        const size_t id = number(extra + at, 2), length = number(extra + at + 2, 2);
        at += 4;
        if (length > bytes - at) break;
        size_t next = at;
        for (uint64_t& value : values)
            if (id == 1 && value == in_extra) {
                if (next + 8 > at + length) refuse(file, "has a damaged zip directory");
                value = number(extra + next, 8);
                next += 8;
            }
        at += length;
    }
}

/// Returns the member whose entry begins at `at`, and moves `at` behind it.
ZipMember take_member(const InputBytes& file, const std::vector<uint8_t>& directory, size_t& at) {
    if (directory.size() - at < size_t(entry_bytes) || number(&directory[at], 4) != 0x02014b50)
        refuse(file, "has a damaged zip directory");
    const uint8_t* entry = &directory[at];
    const uint64_t flags = number(entry + 8, 2), method = number(entry + 10, 2), name = number(entry + 28, 2),
                   extra = number(entry + 30, 2), comment = number(entry + 32, 2), attributes = number(entry + 38, 4);
    uint64_t values[3] = {number(entry + 24, 4), number(entry + 20, 4), number(entry + 42, 4)};
    if (name + extra + comment > directory.size() - at - size_t(entry_bytes))
        refuse(file, "has a damaged zip directory");
    ZipMember member{{entry + entry_bytes, entry + entry_bytes + name}};
    take_from_extra(file, entry + entry_bytes + name, extra, values);
    at += size_t(entry_bytes) + name + extra + comment;
    const auto refuse_member = [&](const char* what) { refuse(file, "member " + shortened(member.name) + " " + what); };
    if (member.name.find('\0') != std::string::npos) refuse(file, "has a member with a zero byte in its name");
    if (member.name.starts_with('/') || ("/" + member.name + "/").find("/../") != std::string::npos)
        refuse_member("has a path that leads elsewhere");
    if (attributes & folder_bit) refuse_member("is marked as a folder");  // PyTorch reads none of its bytes
    if (flags & 1) refuse_member("is encrypted");
    if (method != 0 || values[0] != values[1]) refuse_member("is compressed");
    const std::vector<uint8_t> local = read(file, values[2], uint64_t(local_bytes));
    if (number(local.data(), 4) != 0x04034b50 || number(&local[26], 2) != name)
        refuse_member("is not where it should be");
    const uint64_t begin = values[2] + uint64_t(local_bytes) + name + number(&local[28], 2);
    if (begin > uint64_t(file.size()) || values[0] > uint64_t(file.size()) - begin)
        refuse_member("is longer than the file");
    const std::vector<uint8_t> again = read(file, values[2] + uint64_t(local_bytes), name);
    if (!std::equal(again.begin(), again.end(), member.name.begin(), member.name.end(),
                    [](uint8_t a, char b) { return a == uint8_t(b); }))
        refuse_member("has two names");
    member.offset = int64_t(begin);
    member.bytes = int64_t(values[0]);
    return member;
}

}  // namespace

std::vector<ZipMember> stored_members(const InputBytes& file) {
    const Directory found = find_directory(file);
    const std::vector<uint8_t> directory = read(file, found.offset, found.bytes);
    std::vector<ZipMember> members;
    std::set<std::string> names;
    for (size_t at = 0; at < directory.size();) {
        members.push_back(take_member(file, directory, at));
        if (!names.insert(lower_case(members.back().name)).second)
            refuse(file, "has member " + shortened(members.back().name) + " twice, perhaps with other capital letters");
    }
    if (members.size() != found.members)
        refuse(file, "claims " + std::to_string(found.members) + " members and has " + std::to_string(members.size()));
    std::vector<ZipMember> in_order = members;
    std::ranges::sort(in_order, {}, [](const ZipMember& m) { return std::pair(m.offset, m.bytes); });
    for (size_t i = 1; i < in_order.size(); ++i)
        if (in_order[i].offset < in_order[i - 1].offset + in_order[i - 1].bytes)
            refuse(file, "member " + shortened(in_order[i].name) + " lies in the bytes of another one");
    return members;
}

}  // namespace convoy
