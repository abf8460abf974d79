// Shortens long texts for messages and tables.
#pragma once
#include <string>

namespace convoy {

/// Returns at most `most` bytes of UTF-8. A longer text is cut between characters and ends with an
/// ellipsis.
inline std::string shortened(const std::string& text, size_t most = 200) {
    if (text.size() <= most) return text;
    size_t end = most - 3;  // the ellipsis is three bytes in UTF-8
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end) + "…";
}

}  // namespace convoy
