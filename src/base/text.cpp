#include "base/text.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>

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

}  // namespace convoy
