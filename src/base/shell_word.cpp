#include "base/shell_word.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace convoy {
namespace {

/// Returns true if a character needs no quotes in any shell, even at the start of a word.
bool is_plain(char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || uint8_t(c) >= 0x80 ||
           std::string_view("%+,./:=@_-").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view text) {
    const bool shown = printable(text) == text;
    if (shown && !text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
    std::string word = shown ? "'" : "$'";
    for (const char c : text)
        if (shown)
            word += c == '\'' ? "'\\''" : std::string(1, c);
        else
            word += is_plain(c) && uint8_t(c) < 0x80 ? std::string(1, c) : formatted("\\x%02x", uint8_t(c));
    return word + "'";
}

}  // namespace convoy
