// Tables for people and programs: columns aligned as text, Markdown, or CSV.
#pragma once
#include <string>
#include <vector>

namespace convoy {

struct TextTable {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;  ///< each as long as the header
    /// how many first columns are words and stand left; numbers stand right
    size_t left = 1;
};

/// Columns padded with spaces, two between them; no spaces at the end of a line.
std::string as_text(const TextTable&);
std::string as_markdown(const TextTable&);
/// RFC 4180: quoted where a comma, a quote or a line break is within.
std::string as_csv(const TextTable&);

}  // namespace convoy
