#include "data/tar_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace convoy {
namespace {

constexpr int64_t block = 512, most_header_bytes = 1 << 20;

/// One header of 512 bytes.
class Header {
public:
    Header(const InputBytes& file, int64_t at) { file.read(at, block, bytes_.data()); }

    bool is_end() const {
        return std::all_of(bytes_.begin(), bytes_.end(), [](char c) { return c == 0; });
    }
    bool sums_up() const {
        constexpr size_t at = 148, length = 8;
        int64_t sum = 0;
        for (size_t i = 0; i < bytes_.size(); ++i)
            sum += i >= at && i < at + length ? ' ' : static_cast<unsigned char>(bytes_[i]);
        return sum == number(at, length);
    }
    char type() const { return bytes_[156]; }
    /// Negative: it is none.
    int64_t size() const { return number(124, 12); }
    std::string name() const {
        const std::string own = text(0, 100), prefix = text(345, 155);
        const bool has_prefix = std::memcmp(&bytes_[257], "ustar\0", 6) == 0;  // GNU's is "ustar "
        return has_prefix && !prefix.empty() ? prefix + "/" + own : own;
    }

private:
    std::string text(size_t at, size_t length) const { return {&bytes_[at], strnlen(&bytes_[at], length)}; }
    /// Octal, or GNU's big-endian bytes, marked by the first one's highest bit.
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

/// What a header before a member's own says of it.
struct Extended {
    std::string name{};
    int64_t size = -1;
};

/// Takes the record "LENGTH KEY=VALUE\n" that `records` begin with off them; false: it is none.
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
    if (key == "path") to.name = value;
    if (to.name.find('\0') != std::string::npos) return false;
    if (key != "size") return true;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), to.size);
    return wrong == std::errc() && end == value.data() + value.size() && to.size >= 0;
}

/// Reads one archive from its beginning to its end.
class Walk {
public:
    Walk(const InputBytes& file, int64_t begin, int64_t bytes) : file_(file), at_(begin), end_(begin + bytes) {}

    /// Returns the number of links.
    int64_t visit_all(const std::function<void(const TarPlace&)>& visit) {
        Extended extended;
        int64_t links = 0;
        for (;;) {
            if (end_ - at_ < block) bad("ends without the mark of its end: it is truncated");
            const Header header(file_, at_);
            if (header.is_end()) return links;
            if (!header.sums_up()) bad("a header does not match its checksum: it is damaged or no tar archive");
            const bool of_file = header.type() == '0' || header.type() == '\0' || header.type() == '7';
            const int64_t bytes = of_file && extended.size != -1 ? extended.size : header.size();
            if (bytes < 0 || bytes > end_ - at_ - block) bad("a member reaches beyond its end: it is truncated");
            const int64_t content = at_ + block;
            if (of_file) visit({extended.name.empty() ? header.name() : extended.name, content, bytes});
            links += header.type() == '1' || header.type() == '2';
            if (header.type() == 'S') bad("holds a sparse file, which is not read: pack it without --sparse");
            if (header.type() == 'L') extended.name = text_at(content, bytes).c_str();
            if (header.type() == 'x') read_pax(text_at(content, bytes), extended);
            const bool before_a_member = header.type() == 'L' || header.type() == 'K' || header.type() == 'x';
            if (!before_a_member) extended = {};
            at_ = content + (bytes + block - 1) / block * block;
        }
    }

private:
    void read_pax(std::string_view records, Extended& to) const {
        while (!records.empty())
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
};

}  // namespace

bool is_tar(const InputBytes& file, int64_t offset) {
    if (file.size() - offset < block) return false;
    const Header header(file, offset);
    return header.is_end() || header.sums_up();
}

int64_t index_tar(const InputBytes& file, int64_t offset, int64_t bytes,
                  const std::function<void(const TarPlace&)>& visit) {
    return Walk(file, offset, bytes).visit_all(visit);
}

}  // namespace convoy
