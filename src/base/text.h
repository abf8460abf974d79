// Formats numbers and times for people, parses times, and makes text safe for a terminal.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace convoy {

/// Formats like printf, into a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);
/// Returns `text` in a form that is safe to print; use it for all text from files. Writes as \xNN
/// what could control the terminal: control characters (C0 except those in `kept`, and C1),
/// characters that reverse the direction of text, and bytes that are not UTF-8.
std::string printable(std::string_view text, std::string_view kept = "");
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
