// Quotes words of printed commands so that users can paste them into a shell.
#pragma once
#include <string>
#include <string_view>

namespace convoy {

/// Returns `text` quoted as one word of a shell; plain words are unchanged. Unprintable bytes
/// become $'\x0a', which bash and zsh read.
std::string shell_word(std::string_view text);

}  // namespace convoy
