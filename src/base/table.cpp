#include "base/table.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/text.h"

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

/// True for a number such as -1.5 or +2e-3.
bool is_number(std::string_view text) {
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    double value = 0;
    const bool digit = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return digit && error != std::errc::invalid_argument && rest == text.data() + text.size();
}

/// Returns a cell that no spreadsheet takes for a formula, even if it begins with blanks. Names of
/// runs and hosts come from files of others; a formula may start programs or send cells away.
std::string without_formula(const std::string& cell) {
    const size_t first = cell.find_first_not_of(" \n");
    const bool formula = first != std::string::npos && cell.size() > first + 1 &&
                         std::string_view("=+-@").find(cell[first]) != std::string_view::npos && !is_number(cell);
    return (formula ? "'" : "") + cell;
}

template <class Line> std::string lines(const TextTable& t, const Line& line) {
    std::string text = line(t.header);
    for (const auto& row : t.rows) text += line(row);
    return text;
}

/// Returns a cell between double quotes. Double quotes in it are written twice.
std::string quoted(const std::string& cell) {
    std::string text = "\"";
    for (const char c : cell) text.append(c == '"' ? 2 : 1, c);
    return text + '"';
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

std::string as_markdown_text(const std::string& plain) {
    std::string text;
    size_t backslashes = 0;  // before this character; doubled, because they would escape the next one
    for (const char c : plain) {
        if (c == '|' || c == '[') text.append(backslashes + 1, '\\');
        backslashes = c == '\\' ? backslashes + 1 : 0;
        text += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    }
    return text;
}

std::string as_markdown(const TextTable& table) {
    TextTable t = table;
    for (std::string& cell : t.header) cell = as_markdown_text(cell);
    for (auto& row : t.rows)
        for (std::string& cell : row) cell = as_markdown_text(cell);
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
            const std::string cell = without_formula(printable(row[c], "\n"));
            line += c ? "," : "";
            line += cell.find_first_of(",\"\n") == std::string::npos ? cell : quoted(cell);
        }
        return line + "\n";
    });
}

}  // namespace convoy
