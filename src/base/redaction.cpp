#include "base/redaction.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/held_folder.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

/// Returns the length of the absolute path that begins at `at`; 0 if none does.
size_t path_at(std::string_view text, size_t at) {
    if (text[at] != '/') return 0;
    const size_t end = std::min(text.find_first_of(" \t\n\"'`,;:()<>|", at), text.size());
    return std::any_of(text.begin() + at, text.begin() + end, is_of_word) ? end - at : 0;
}

}  // namespace

void Redaction::add(Entry entry) {
    if (entry.text.size() < 2 || entry.text == entry.instead) return;
    const auto shorter = [&](const Entry& other) { return other.text.size() < entry.text.size(); };
    entries_.insert(std::find_if(entries_.begin(), entries_.end(), shorter), std::move(entry));
}

void Redaction::add_path(const std::string& path) {
    std::error_code unknown;
    const std::string given = without_slashes(path);
    const fs::path whole = fs::absolute(given, unknown).lexically_normal();
    const fs::path real = fs::weakly_canonical(whole, unknown);
    const std::string last = real.filename(), instead = last.empty() ? "." : last;
    for (const std::string& form : {given, whole.string(), real.string()})
        if (form != "." && form != "..") add({without_slashes(form), instead});
    if (const char* home = std::getenv("HOME")) add({without_slashes(home), "~"});
    add({fs::current_path(unknown), "."});
}

void Redaction::add_hosts(const std::vector<std::string>& of_ranks) {
    std::map<std::string, std::string> known;
    for (const std::string& host : of_ranks) {
        const auto [at, is_new] = known.emplace(host, "host-" + std::to_string(known.size() + 1));
        if (!is_new) continue;
        add({host, at->second, true});
        add({host.substr(0, host.find('.')), at->second, true});
    }
}

std::string Redaction::operator()(std::string text) const {
    for (size_t at = 0; at < text.size();) {
        const bool begins =
            at == 0 || (!is_of_word(text[at - 1]) && text[at - 1] != '/' && text[at - 1] != '.' && text[at - 1] != '~');
        const auto matches = [&](const Entry& e) {
            const size_t end = at + e.text.size();
            return text.compare(at, e.text.size(), e.text) == 0 &&
                   (!e.whole_word || end >= text.size() || !is_of_word(text[end]));
        };
        const auto found = begins ? std::find_if(entries_.begin(), entries_.end(), matches) : entries_.end();
        const size_t path = begins && !entries_.empty() ? path_at(text, at) : 0;
        if (found == entries_.end() && path == 0) {
            ++at;
            continue;
        }
        const bool is_known = found != entries_.end();
        const std::string last = fs::path(without_slashes(text.substr(at, path))).filename(),
                          instead = is_known ? found->instead : last;
        text.replace(at, is_known ? found->text.size() : path, instead);
        at += std::max<size_t>(instead.size(), 1);
    }
    return text;
}

}  // namespace convoy
