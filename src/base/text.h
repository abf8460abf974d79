// Takes texts apart and joins them, formats numbers and times for people, parses times, and makes
// text safe for a terminal.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

/// Formats like printf, into a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);
/// Returns `text` in a form that is safe to print; use it for all text from files. Writes as \xNN
/// what could control the terminal: control characters (C0 except those in `kept`, and C1),
/// characters that reverse the direction of text, and bytes that are not UTF-8. Writes U+FFFE and
/// U+FFFF in the same way, because XML forbids them.
std::string printable(std::string_view text, std::string_view kept = "");
/// Returns the text without blanks, tabs and carriage returns at its ends.
std::string trimmed(const std::string& text);
/// Returns `text` with the ASCII letters A to Z in lower case, in every locale.
std::string lower_case(std::string text);
/// Returns the line, trimmed, without the comment that '#' begins.
std::string without_comment(const std::string& line);
/// Returns the words of a text, which white space separates.
std::vector<std::string> words_of(const std::string& text);
/// Returns the parts of a text. Parts may be empty. A separator at the end begins no further part.
std::vector<std::string> split(const std::string& text, char separator);
/// Returns the texts joined, with `between` between neighbours.
std::string joined(const std::vector<std::string>& texts, const std::string& between);
struct KeyValue {
    std::string key, value;
};
/// Takes "key = value" apart; either may be empty. Returns nullopt for a text without '='.
std::optional<KeyValue> key_and_value(const std::string& text);
/// Formats a number with thousands separators: 24253410 -> "24,253,410".
std::string grouped(size_t n);
/// Formats a time: "3h07m" or, below one hour, "4m09s".
std::string duration_text(double seconds);

/// The longest time that parse_duration() accepts, in seconds: 8760h, a year.
constexpr double longest_duration = 365 * 24 * 3600.0;
/// Returns the seconds of "1h30m", "90s" or "0.5h": plain decimals, each unit at most once and in
/// this order. Returns nullopt for another text, or a time above `longest_duration`.
std::optional<double> parse_duration(const std::string& text);

}  // namespace convoy
