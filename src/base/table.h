// Tables for people and programs: columns aligned as text, Markdown, or CSV.
#pragma once
#include <string>
#include <vector>

namespace convoy {

struct TextTable {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;  ///< each as long as the header
    /// number of leading columns that are left-aligned (words); the others are right-aligned
    size_t left = 1;
};

/// Pads columns with spaces, with two between them; no line ends with spaces.
std::string as_text(const TextTable&);
/// Writes a table of Markdown, whose cells as_markdown_text() escapes.
std::string as_markdown(const TextTable&);
/// Escapes what would end a cell of Markdown, or become HTML, a link or a picture. Names of runs
/// and of hosts come from files of other people.
std::string as_markdown_text(const std::string&);
/// Writes CSV as in RFC 4180: cells that contain a comma, a quote or a line break are quoted. An
/// apostrophe precedes a cell that a spreadsheet would take for a formula. Other control characters
/// and bytes that are not UTF-8 are written as printable() does.
std::string as_csv(const TextTable&);

}  // namespace convoy
