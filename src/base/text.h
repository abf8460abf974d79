// Numbers and times as people read and write them, and what a terminal may show.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace convoy {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);
/// `text` as a terminal may show it; for all that comes from files. Writes as \xNN what could steer
/// the terminal: control characters (C0 except those in `kept`, and C1), characters that turn the
/// direction of text round, and bytes that are no UTF-8.
std::string printable(std::string_view text, std::string_view kept = "");
/// 24253410 -> "24,253,410"
std::string grouped(size_t n);
/// "3h07m", "4m09s"
std::string duration_text(double seconds);

/// The longest time that parse_duration reads, in seconds: 8760h, a year.
constexpr double longest_duration = 365 * 24 * 3600.0;
/// Seconds of "1h30m", "90s" or "0.5h": plain decimals, each unit at most once and in this order.
/// Nothing if `text` is not such a time, or a longer one than `longest_duration`.
std::optional<double> parse_duration(const std::string& text);

}  // namespace convoy
