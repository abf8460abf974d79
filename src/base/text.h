// Numbers and times as people read and write them.
#pragma once
#include <optional>
#include <string>

namespace convoy {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);
/// 24253410 -> "24,253,410"
std::string grouped(size_t n);
/// "3h07m", "4m09s"
std::string duration_text(double seconds);

/// The longest time that parse_duration reads, in seconds: 8760h, a year.
constexpr double longest_duration = 365 * 24 * 3600.0;
/// Seconds of "1h30m", "90s" or "0.5h": plain decimals, each unit at most once and in this order. Nothing if `text` is
/// not such a time, or a longer one than `longest_duration`.
std::optional<double> parse_duration(const std::string& text);

}  // namespace convoy
