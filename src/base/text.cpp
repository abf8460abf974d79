#include "base/text.h"

#include <charconv>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
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
    const auto s = int64_t(seconds + 0.5);
    return s >= 3600 ? formatted("%lldh%02lldm", (long long)(s / 3600), (long long)(s / 60 % 60)) : formatted("%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
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
