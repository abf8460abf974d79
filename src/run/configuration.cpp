#include "run/configuration.h"

#include <algorithm>
#include <sstream>

namespace convoy {

const std::set<std::string>& writing_options() {
    static const std::set<std::string> options = {"output", "overwrite", "log-dir", "timeline"};
    return options;
}

const std::set<std::string>& command_line_options() {
    static const std::set<std::string> options = [] {
        std::set<std::string> all = writing_options();
        all.insert({"keep", "resume", "dry-run", "chip", "print-config", "ranks"});
        return all;
    }();
    return options;
}

namespace {

/// Replaces line ends, which a path may have, because they would begin another option.
std::string on_one_line(std::string value) {
    for (const char end : {'\n', '\r'}) std::replace(value.begin(), value.end(), end, ' ');
    return value;
}

}  // namespace

std::string config_text(const ConfigPairs& pairs) {
    std::string text;
    for (const auto& [key, value] : pairs)
        text += (value.empty() || command_line_options().contains(key) ? "# " : "") + key + " = " + on_one_line(value) +
                "\n";
    return text;
}

std::string present_name(const std::string& option) { return option == "tune" ? "tuning" : option; }

const std::set<std::string>& path_options() {
    static const std::set<std::string> options = {"data",      "output", "log-dir", "resume",
                                                  "init-from", "config", "cluster", "timeline"};
    return options;
}

ConfigPairs config_pairs(const std::string& text) {
    ConfigPairs pairs;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# ")) line.erase(0, 2);
        if (const size_t equals = line.find(" = "); equals != std::string::npos)
            pairs.emplace_back(present_name(line.substr(0, equals)), line.substr(equals + 3));
    }
    return pairs;
}

void set_config_value(ConfigPairs& pairs, const std::string& option, const std::string& value) {
    for (auto& [key, old] : pairs)
        if (key == option) old = value;
}

std::string config_value(const std::string& text, const std::string& option) {
    for (const auto& [key, value] : config_pairs(text))
        if (key == option) return value;
    return "";
}

}  // namespace convoy
