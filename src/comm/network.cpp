#include "comm/network.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/folder.h"

namespace convoy {
namespace {
namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

std::set<fs::path> entries(const fs::path& folder) {
    std::error_code none;
    const std::vector<fs::path> all = entries_of(folder, none);
    return {all.begin(), all.end()};
}

void add(std::string& text, const std::string& name, const std::string& rate) {
    text += (text.empty() ? "" : ", ") + name + " " + rate;
}

}  // namespace

std::string verbs_ports(const std::string& sys) {
    std::string text;
    for (const fs::path& card : entries(sys + "/class/infiniband"))
        for (const fs::path& port : entries(card / "ports"))
            if (line_of(port / "state").find("ACTIVE") != std::string::npos)
                add(text, card.filename(), line_of(port / "rate"));
    return text;
}

std::string network_cards(const std::string& sys) {
    std::string text = verbs_ports(sys);
    for (const fs::path& card : entries(sys + "/class/net")) {
        // skips loopback and bridges, which have no device
        if (!is_there(card / "device") || line_of(card / "operstate") != "up") continue;
        const int megabits = std::atoi(line_of(card / "speed").c_str());
        char rate[32] = "of unknown speed";
        if (megabits > 0) std::snprintf(rate, sizeof rate, "%g Gb/s", megabits / 1e3);
        add(text, card.filename(), rate);
    }
    return text.empty() ? "none" : text;
}

}  // namespace convoy
