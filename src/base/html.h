// Escapes text for HTML and XML.
#pragma once
#include <string>

#include "base/text.h"

namespace convoy {

/// Returns `text` with the characters escaped that have a meaning in HTML or XML. Control
/// characters other than those in `kept`, and bytes that are not UTF-8, are written as printable()
/// does.
inline std::string html_escaped(const std::string& text, std::string_view kept = "") {
    std::string out;
    for (const char c : printable(text, kept)) switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            case '\'': out += "&#39;"; break;
            default: out += c;
        }
    return out;
}

}  // namespace convoy
