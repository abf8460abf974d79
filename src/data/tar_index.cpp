#include "data/tar_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace convoy {
namespace {

constexpr int64_t block = 512, most_header_bytes = 1 << 20;
constexpr size_t most_name_bytes = 4 << 10;  // PATH_MAX

/// One header of 512 bytes.
class Header {
public:
    Header(const InputBytes& file, int64_t at) { file.read(at, block, bytes_.data()); }

    bool is_end() const {
        return std::all_of(bytes_.begin(), bytes_.end(), [](char c) { return c == 0; });
    }
    /// True if the header matches its checksum. Also accepts a sum of signed characters, which some
    /// writers use; it differs for names beyond ASCII.
    bool sums_up() const {
        constexpr size_t at = 148, length = 8;
        int64_t sum = 0, signed_sum = 0;
        for (size_t i = 0; i < bytes_.size(); ++i) {
            const bool in_sum = i >= at && i < at + length;
            sum += in_sum ? ' ' : static_cast<unsigned char>(bytes_[i]);
            signed_sum += in_sum ? ' ' : static_cast<signed char>(bytes_[i]);
        }
        const int64_t stored = number(at, length);
        return stored == sum || stored == signed_sum;
    }
    char type() const { return bytes_[156]; }
    bool is_link() const { return type() == '1' || type() == '2'; }
    /// True for links, devices, folders and pipes. A link's size field may be its target's size.
    bool is_without_content() const { return type() >= '1' && type() <= '6'; }
    /// True for regular files. By POSIX, unknown types are read as regular files, too.
    bool is_file() const {
        constexpr std::string_view others = "123456ADEIKLMNSVXgx";
        return others.find(type()) == std::string_view::npos;
    }
    /// True if the header describes the next member (long name, pax).
    bool is_extension() const {
        constexpr std::string_view types = "KLXgx";
        return types.find(type()) != std::string_view::npos;
    }
    /// Returns the size of the content; negative if the field is not a number.
    int64_t size() const { return number(124, 12); }
    std::string name() const {
        const std::string own = text(0, 100), prefix = text(345, 155);
        const bool has_prefix = std::memcmp(&bytes_[257], "ustar\0", 6) == 0;  // GNU's is "ustar "
        return has_prefix && !prefix.empty() ? prefix + "/" + own : own;
    }

private:
    std::string text(size_t at, size_t length) const { return {&bytes_[at], strnlen(&bytes_[at], length)}; }
    /// Returns a number in octal digits, or in GNU's big-endian bytes if the first bit is set.
    int64_t number(size_t at, size_t length) const {
        uint64_t value = 0;
        if (bytes_[at] & char(0x80)) {
            for (size_t i = at + length - 8; i < at + length; ++i)
                value = value << 8 | static_cast<unsigned char>(bytes_[i]);
            return value >> 62 ? -1 : int64_t(value);
        }
        std::string digits = text(at, length);
        digits.erase(0, std::min(digits.find_first_not_of(' '), digits.size()));
        digits.erase(std::min(digits.find_last_not_of(' ') + 1, digits.size()));
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
        const bool good = error == std::errc() && end == digits.data() + digits.size() && value >> 62 == 0;
        return good || digits.empty() ? int64_t(value) : -1;
    }

    std::array<char, block> bytes_{};
};

/// Name and size of the next member, from extension headers.
struct Extended {
    std::string name{};
    int64_t size = -1;
    bool sparse = false;
    bool has_gnu = false, has_pax = false;  ///< there was a GNU header with a long name, or a pax header
};

/// Removes the first record "LENGTH KEY=VALUE\n" from `records` and applies it to `to`. False if
/// `records` do not begin with one.
bool read_pax_record(std::string_view& records, Extended& to) {
    size_t length = 0;
    const char *begin = records.data(), *all = begin + records.size();
    const auto [digits_end, error] = std::from_chars(begin, all, length);
    if (error != std::errc() || length > records.size() || begin + length <= digits_end) return false;
    const std::string_view record(digits_end, size_t(begin + length - digits_end));
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos || !record.starts_with(' ') || !record.ends_with('\n')) return false;
    const std::string_view key = record.substr(1, equals - 1),
                           value = record.substr(equals + 1, record.size() - equals - 2);
    records.remove_prefix(length);
    if (key == "path" && value.find('\0') != std::string_view::npos) return false;
    if (key == "path") to.name = value;
    if (key.starts_with("GNU.sparse.")) to.sparse = true;
    if (key != "size") return true;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), to.size);
    return wrong == std::errc() && end == value.data() + value.size() && to.size >= 0;
}

/// Reads one archive, or several concatenated ones, from the beginning to the end.
class Walk {
public:
    Walk(const InputBytes& file, int64_t begin, int64_t bytes) : file_(file), at_(begin), end_(begin + bytes) {}

    void visit_all(const std::function<void(const TarPlace&)>& visit) {
        for (;;) {
            if (end_ - at_ < block) bad("ends without the mark of its end: it is truncated");
            const Header header(file_, at_);
            if (!header.is_end())
                read_member(header, visit);
            else if (extended_ = {}; !find_next_archive())
                return;
        }
    }

private:
    void read_member(const Header& header, const std::function<void(const TarPlace&)>& visit) {
        if (!header.sums_up()) bad("a header does not match its checksum: it is damaged or no tar archive");
        const bool is_file = header.is_file();
        const int64_t content = at_ + block;
        int64_t bytes = is_file && extended_.size != -1 ? extended_.size : header.size();
        if (bytes > 0 && header.is_without_content() && begins_member(content)) bytes = 0;
        if (bytes < 0 || bytes > end_ - content) bad("a member reaches beyond its end: it is truncated");
        if (header.type() == 'S' || (is_file && extended_.sparse))
            bad("holds a sparse file, which is not read: pack it without --sparse");
        if (header.type() == 'M') bad("is a volume of a larger archive, which is not read: unpack that with tar -M");
        const std::string name = extended_.name.empty() ? header.name() : extended_.name;
        if (name.size() > most_name_bytes) bad("a name is longer than 4 KiB: it is damaged");
        if (is_file && !name.ends_with('/')) visit({name, content, bytes});  // '/': a folder, before POSIX
        if (header.is_link()) visit({.name = name, .is_link = true});
        if (header.type() == 'L') read_gnu_name(text_at(content, bytes));
        if (header.type() == 'x' || header.type() == 'X') read_pax_of_member(text_at(content, bytes));
        if (header.type() == 'g') check_global(text_at(content, bytes));
        if (!header.is_extension()) extended_ = {};
        at_ = content + (bytes + block - 1) / block * block;
    }
    /// True if a header, or the mark of the end, is at `at`.
    bool begins_member(int64_t at) const {
        if (end_ - at < block) return end_ == at;
        const Header next(file_, at);
        return next.is_end() || next.sums_up();
    }
    /// Advances to the next archive after the mark of the end, as in `cat a.tar b.tar`. Returns
    /// false if only zeros follow.
    bool find_next_archive() {
        const int64_t mark = at_;
        constexpr int64_t most = 1 << 20;
        int64_t length = 8 * block;  // the next archive often follows at once
        std::vector<char> part;
        for (int64_t at = mark + block; at < end_; at += int64_t(part.size()), length = std::min(2 * length, most)) {
            part.resize(size_t(std::min(end_ - at, length)));
            file_.read(at, int64_t(part.size()), part.data());
            const auto found = std::find_if(part.begin(), part.end(), [](char c) { return c != 0; });
            if (found == part.end()) continue;
            at_ = mark + (at + (found - part.begin()) - mark) / block * block;
            if (end_ - at_ >= block && Header(file_, at_).sums_up()) return true;
            at_ = at + (found - part.begin());
            fail(Exit::bad_input, file_.path() + ": at byte " + std::to_string(at_) +
                                      ": bytes that are no archive follow the mark of its end; get the archive again, "
                                      "or unpack it with tar and give the folder");
        }
        return false;
    }

    // Programs do not agree on which of two names of a member counts.
    void read_gnu_name(const std::string& text) {
        if (extended_.has_gnu || !extended_.name.empty()) bad("a member has two long names");
        extended_.has_gnu = true;
        extended_.name = text.c_str();
    }
    void read_pax_of_member(const std::string& records) {
        if (extended_.has_pax) bad("a member has two pax headers");
        Extended read;
        read_pax(records, read);
        if (extended_.has_gnu && !read.name.empty()) bad("a member has two long names");
        if (extended_.has_gnu) read.name = extended_.name;
        read.has_gnu = extended_.has_gnu;
        read.has_pax = true;
        extended_ = read;
    }
    /// Refuses a pax header for all members that gives names or sizes. git archive writes a
    /// comment.
    void check_global(const std::string& records) const {
        Extended of_all;
        read_pax(records, of_all);
        if (!of_all.name.empty() || of_all.size != -1 || of_all.sparse)
            bad("a pax header gives all members a name or a size");
    }
    void read_pax(std::string_view records, Extended& to) const {
        // Some writers fill the block with zeros.
        while (records.find_first_not_of('\0') != std::string_view::npos)
            if (!read_pax_record(records, to)) bad("a pax header is damaged");
    }
    std::string text_at(int64_t at, int64_t bytes) const {
        if (bytes > most_header_bytes) bad("a header is longer than 1 MiB: it is damaged");
        std::string text(size_t(bytes), '\0');
        file_.read(at, bytes, text.data());
        return text;
    }
    [[noreturn]] void bad(const std::string& what) const {
        fail(Exit::bad_input, file_.path() + ": at byte " + std::to_string(at_) + ": " + what + "; get it again");
    }

    const InputBytes& file_;
    int64_t at_;
    const int64_t end_;
    Extended extended_;
};

}  // namespace

bool is_tar(const InputBytes& file, int64_t offset, int64_t bytes) {
    if (bytes < block) return false;
    const Header header(file, offset);
    return header.is_end() || header.sums_up();
}

void index_tar(const InputBytes& file, int64_t offset, int64_t bytes,
               const std::function<void(const TarPlace&)>& visit) {
    Walk(file, offset, bytes).visit_all(visit);
}

}  // namespace convoy
