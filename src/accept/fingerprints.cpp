#include "accept/fingerprints.h"

#include <sstream>

#include "base/durable.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/shorten.h"

namespace convoy {
namespace {

constexpr const char* head = "\"kind of device\",\"training\",\"hash after each step\"";

/// Takes a line of three quoted texts apart; a quote in a text is written twice.
std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    size_t at = 0;
    while (at < line.size() && line[at] == '"') {
        std::string cell;
        for (++at; at < line.size(); ++at) {
            if (line[at] != '"') {
                cell += line[at];
            } else if (at + 1 < line.size() && line[at + 1] == '"') {
                cell += line[at++];
            } else {
                break;
            }
        }
        if (at >= line.size()) return {};
        cells.push_back(cell);
        ++at;
        if (at == line.size()) return cells;
        if (line[at++] != ',') return {};
    }
    return {};
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

}  // namespace

Fingerprints read_fingerprints(const std::string& path) {
    Fingerprints known;
    std::map<Fingerprints::key_type, int> lines_by_key;  // the first line of each
    constexpr size_t most = size_t(4) << 20;             // bytes; parsed, they take ten times as much on each rank
    std::istringstream lines(text_of_input(path, most, "give a file that --save-fingerprint wrote"));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.empty() || line == head || line[0] == '#') continue;
        const std::vector<std::string> cells = cells_of(line);
        if (cells.size() != 3)
            fail(Exit::bad_input, path + ":" + std::to_string(number) +
                                      ": is not \"kind\",\"training\",\"hashes\"; give a file that "
                                      "--save-fingerprint wrote");
        const std::vector<std::string> hashes = words_of(cells[2]);
        for (const std::string& hash : hashes)
            if (hash.size() != 16 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
                fail(Exit::bad_input, path + ":" + std::to_string(number) + ": '" + shortened(hash, 40) +
                                          "' is no hash of 16 hexadecimal digits; the file is damaged: save it again");
        if (!cells[1].ends_with(" " + std::to_string(hashes.size()) + " steps"))
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": has " + std::to_string(hashes.size()) +
                                      " hashes of '" + shortened(cells[1], 60) +
                                      "'; the file is damaged: save it again");
        const std::pair key(cells[0], cells[1]);
        const int first = lines_by_key.emplace(key, number).first->second;
        if (known.emplace(key, hashes).first->second != hashes)
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": has other hashes than line " +
                                      std::to_string(first) + " for '" + shortened(cells[0], 60) + "' and '" +
                                      shortened(cells[1], 60) + "'; remove the line that is wrong");
    }
    return known;
}

void save_fingerprints(const HeldPlace& place, const Fingerprints& seen) {
    Fingerprints all;
    check_place(place);  // another user may have put a link or a pipe there since the start
    if (place.folder().has(place.name())) all = place.folder().named([&] { return read_fingerprints(place.path()); });
    for (const auto& [key, steps] : seen) {
        const auto known = all.find(key);
        if (known != all.end() && known->second != steps)
            fail(Exit::bad_input, place.shown() + ": has other bits of " + key.second + " for " + key.first +
                                      "; one of the two machines is wrong: nothing was changed");
        all[key] = steps;
    }
    std::string text = std::string(head) + "\n";
    for (const auto& [key, steps] : all)
        text += quoted(key.first) + "," + quoted(key.second) + "," + quoted(joined(steps, " ")) + "\n";
    replace_file(place, {text.begin(), text.end()});
}

}  // namespace convoy
