#include "base/table.h"

#include <algorithm>

namespace convoy {
namespace {

/// Returns the number of characters, not bytes, of UTF-8.
size_t width_of(const std::string& text) {
    return size_t(std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<size_t> widths_of(const TextTable& t) {
    std::vector<size_t> widths;
    for (size_t c = 0; c < t.header.size(); ++c) {
        widths.push_back(width_of(t.header[c]));
        for (const auto& row : t.rows) widths[c] = std::max(widths[c], width_of(row[c]));
    }
    return widths;
}

std::string padded(const std::string& text, size_t width, bool left) {
    const std::string space(width - width_of(text), ' ');
    return left ? text + space : space + text;
}

/// Escapes bars, which would end a cell of Markdown, with a backslash. Doubles the backslashes
/// before a bar, because they would escape that backslash.
std::string with_escaped_bars(const std::string& cell) {
    std::string text;
    size_t backslashes = 0;  // before this character
    for (const char c : cell) {
        if (c == '|') text.append(backslashes + 1, '\\');
        backslashes = c == '\\' ? backslashes + 1 : 0;
        text += c;
    }
    return text;
}

template <class Line> std::string lines(const TextTable& t, const Line& line) {
    std::string text = line(t.header);
    for (const auto& row : t.rows) text += line(row);
    return text;
}

}  // namespace

std::string as_text(const TextTable& t) {
    const std::vector<size_t> widths = widths_of(t);
    return lines(t, [&](const std::vector<std::string>& row) {
        std::string line;
        for (size_t c = 0; c < row.size(); ++c) line += (c ? "  " : "") + padded(row[c], widths[c], c < t.left);
        return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    });
}

std::string as_markdown(const TextTable& table) {
    TextTable t = table;
    for (auto& row : t.rows)
        for (std::string& cell : row) cell = with_escaped_bars(cell);
    const std::vector<size_t> widths = widths_of(t);
    const auto line = [&](const std::vector<std::string>& row) {
        std::string text = "|";
        for (size_t c = 0; c < row.size(); ++c) text += " " + padded(row[c], widths[c], c < t.left) + " |";
        return text + "\n";
    };
    std::string text = line(t.header) + "|";
    for (size_t c = 0; c < t.header.size(); ++c) text += c < t.left ? "---|" : "---:|";
    text += "\n";
    for (const auto& row : t.rows) text += line(row);
    return text;
}

std::string as_csv(const TextTable& t) {
    return lines(t, [](const std::vector<std::string>& row) {
        std::string line;
        for (size_t c = 0; c < row.size(); ++c) {
            std::string cell = row[c];
            if (cell.find_first_of(",\"\n") != std::string::npos) {
                for (size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, 1, '"');
                cell = '"' + cell + '"';
            }
            line += (c ? "," : "") + cell;
        }
        return line + "\n";
    });
}

}  // namespace convoy
