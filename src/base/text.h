// Numbers as people read them.
#pragma once
#include <string>

namespace convoy {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);
/// 24253410 -> "24,253,410"
std::string grouped(size_t n);
/// "3h07m", "4m09s"
std::string duration_text(double seconds);

}  // namespace convoy
