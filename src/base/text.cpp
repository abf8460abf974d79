#include "base/text.h"

#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <system_error>

namespace convoy {

std::string formatted(const char* pattern, ...) {
    va_list args, again;
    va_start(args, pattern);
    va_copy(again, args);
    std::string text(size_t(std::vsnprintf(nullptr, 0, pattern, args)), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    va_end(args);
    va_end(again);
    return text;
}

namespace {

struct Character {
    char32_t code;
    size_t bytes;
};

/// Decodes the first character of a text that is not empty. The code is 0 for a byte that begins no
/// well-formed UTF-8 sequence (Unicode, table 3-7).
Character first_character(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t(0); };
    const uint8_t first = byte(0);
    if (first < 0x80) return {first, 1};
    const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    char32_t code = first & (0xFF >> (bytes + 1));
    for (size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return {0, 1};
        code = code << 6 | (byte(i) & 0x3F);
    }
    constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    if (first < 0xC0 || first > 0xF7 || code < least[bytes] || code > 0x10FFFF || surrogate) return {0, 1};
    return {code, bytes};
}

bool steers_a_terminal(char32_t c) {
    const auto within = [c](char32_t low, char32_t high) { return c >= low && c <= high; };
    const bool control = within(0, 0x1F) || within(0x7F, 0x9F);
    return control || within(0x2028, 0x202E) || within(0x2066, 0x2069);  // line ends, and changes of direction
}

/// True for two codes that are no characters. A document of XML that holds one is not well-formed.
bool is_no_character(char32_t c) { return c == 0xFFFE || c == 0xFFFF; }

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
    std::string shown;
    while (!text.empty()) {
        const Character c = first_character(text);
        const bool plain =
            (!steers_a_terminal(c.code) && !is_no_character(c.code)) || kept.find(text[0]) != std::string_view::npos;
        for (const char byte : text.substr(0, c.bytes))
            shown += plain ? std::string(1, byte) : formatted("\\x%02x", uint8_t(byte));
        text.remove_prefix(c.bytes);
    }
    return shown;
}

std::string trimmed(const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::string lower_case(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
    return text;
}

std::string without_comment(const std::string& line) { return trimmed(line.substr(0, line.find('#'))); }

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
    return parts;
}

std::string joined(const std::vector<std::string>& texts, const std::string& between) {
    std::string all;
    for (size_t i = 0; i < texts.size(); ++i) all += (i > 0 ? between : "") + texts[i];
    return all;
}

std::optional<KeyValue> key_and_value(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return std::nullopt;
    return KeyValue{trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1))};
}

std::string grouped(size_t n) {
    const std::string digits = std::to_string(n);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

std::string duration_text(double seconds) {
    const long long s = std::llround(seconds);
    return s >= 3600 ? formatted("%lldh%02lldm", s / 3600, s / 60 % 60) : formatted("%lldm%02llds", s / 60, s % 60);
}

std::optional<double> parse_duration(const std::string& text) {
    constexpr std::string_view units = "hms";
    constexpr double seconds_in[] = {3600, 60, 1};
    double seconds = 0;
    size_t next = 0;  // the largest unit that may still come
    for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
        end = text.find_first_not_of("0123456789.", at);
        const size_t unit = end == std::string::npos ? end : units.find(text[end], next);
        if (unit == std::string::npos) return {};
        double number = 0;
        const auto [stop, error] = std::from_chars(&text[at], &text[end], number, std::chars_format::fixed);
        if (error != std::errc() || stop != &text[end]) return {};
        seconds += number * seconds_in[unit];
        next = unit + 1;
    }
    if (text.empty() || seconds > longest_duration) return {};
    return seconds;
}

}  // namespace convoy
