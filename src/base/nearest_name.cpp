#include "base/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace convoy {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t(0));
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = std::exchange(row[0], i + 1);
        for (size_t j = 0; j < b.size(); ++j)
            diagonal =
                std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] == b[j] ? 0 : 1)}));
    }
    return row.back();
}

/// Returns `name` in lower case, without dashes and underscores.
std::string folded(const std::string& name) {
    std::string letters;
    for (const char c : name)
        if (c != '-' && c != '_') letters += char(std::tolower(static_cast<unsigned char>(c)));
    return letters;
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
    std::string best;
    const std::string letters = folded(name);
    const size_t furthest = name.size() < 3 ? 0 : name.size() < 4 ? 1 : std::max<size_t>(2, name.size() / 3);
    size_t best_distance = furthest + 1;
    for (const std::string& candidate : known) {
        const std::string other = folded(candidate);
        const bool abbreviates = letters.size() >= 2 && other.starts_with(letters);
        const size_t distance = abbreviates ? 0 : edit_distance(letters, other);
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise,
                         const std::string& prefix) {
    const std::string near = nearest_name(name, known);
    return near.empty() ? "; " + otherwise : ", did you mean " + prefix + near + "?";
}

std::string unknown_choice(const std::string& name, const std::vector<std::string>& known,
                           const std::string& all_of_them) {
    const std::string near = nearest_name(name, known), choose = "choose " + all_of_them;
    return near.empty() ? "; " + choose : ", did you mean " + near + "? else " + choose;
}

std::string list_of(const std::vector<std::string>& words, const std::string& last) {
    std::string list;
    for (size_t i = 0; i < words.size(); ++i) {
        if (i > 0) list += i + 1 == words.size() ? last : ", ";
        list += words[i];
    }
    return list;
}

}  // namespace convoy
