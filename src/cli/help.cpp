#include "cli/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "cli/choices.h"

namespace convoy {
namespace {
namespace po = boost::program_options;

constexpr int least_columns = 80, most_columns = 120;
constexpr size_t widest_name = 20;  // longer names move their own text to the right

using Option = po::option_description;

/// Returns the number of columns of UTF-8 text.
size_t width(const std::string& text) {
    return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Returns true for a flag, which may be given without a value.
bool is_switch(const Option& option) { return option.semantic()->min_tokens() == 0; }

/// Splits Boost's text for the value of an option and its default: "RATE (=0.1)".
std::pair<std::string, std::string> value_and_default(const Option& option) {
    const std::string name = option.semantic()->name(), mark = " (=";
    const size_t at = name.find(mark);
    if (at == std::string::npos) return {name, ""};
    return {name.substr(0, at), name.substr(at + mark.size(), name.size() - at - mark.size() - 1)};
}

std::string name_of(const Option& option) {
    return "--" + option.long_name() + (is_switch(option) ? "" : " " + value_and_default(option).first);
}

/// Returns " (required)" or " (default 0.1)". Empty if neither applies, or if `text` already names
/// a default.
std::string note_on(const HelpScreen& screen, const Option& option, const std::string& text) {
    for (const std::set<std::string>& names : screen.required) {
        if (!names.contains(option.long_name())) continue;
        std::string others;
        for (const std::string& name : names)
            if (name != option.long_name()) others += ", or --" + name;
        return " (required" + others + ")";
    }
    const std::string default_text = is_switch(option) ? "" : value_and_default(option).second;
    return default_text.empty() || text.find("default") != std::string::npos ? "" : " (default " + default_text + ")";
}

/// Formats "  NAME  text", wrapped. Lines after the first begin at column `indent`.
std::string entry(const std::string& name, const std::string& text, size_t indent, size_t columns) {
    std::string out = "  " + name, word;
    out += std::string(std::max<size_t>(2, indent - std::min(indent, width(out))), ' ');
    size_t at = width(out);
    bool begins = true;
    std::istringstream words(text);
    for (; words >> word; begins = false) {
        const size_t more = width(word) + (begins ? 0 : 1);
        if (!begins && at + more > columns) {
            out += "\n" + std::string(indent, ' ') + word;
            at = indent + width(word);
        } else {
            out += (begins ? "" : " ") + word;
            at += more;
        }
    }
    return out + "\n";
}

/// Returns the column at which texts begin.
size_t indent_of(const std::vector<std::string>& names) {
    size_t widest = 0;
    for (const std::string& name : names) widest = std::max(widest, std::min(width(name), widest_name));
    return 2 + widest + 2;
}

size_t indent_of(const OptionGroups& groups) {
    std::vector<std::string> names;
    for (const OptionGroup& group : groups)
        for (const auto& option : group.options) names.push_back(name_of(*option));
    return indent_of(names);
}

std::string heading_of(const CommandHelp& help) {
    return "usage: convoy " + help.command + " " + help.screen.usage + "\n" + help.screen.does + "\n\n";
}

std::string examples_of(const HelpScreen& screen) {
    std::string text = "examples:\n";
    for (const std::string& example : screen.examples) text += "  " + example + "\n";
    return text;
}

std::string text_of(const HelpScreen& screen, const OptionGroup& group, size_t indent, int columns) {
    std::string text = group.heading + ":\n";
    for (const auto& option : group.options) {
        const std::string& own = option->description();
        text += entry(name_of(*option), own + note_on(screen, *option, own), indent, size_t(columns));
    }
    return text;
}

const Option* find(const CommandHelp& help, const std::string& name) {
    for (const OptionGroup& group : help.groups)
        for (const auto& option : group.options)
            if (option->long_name() == name) return option.get();
    return nullptr;
}

/// Returns the words of a heading, by which --help finds it.
std::vector<std::string> topics_of(const std::string& heading) {
    std::vector<std::string> topics = words_of(heading);
    std::erase(topics, "and");
    return topics;
}

std::vector<std::string> topics_of(const CommandHelp& help) {
    std::vector<std::string> topics;
    if (help.groups.size() < 2) return topics;
    for (const OptionGroup& group : help.groups)
        for (const std::string& topic : topics_of(group.heading)) topics.push_back(topic);
    return topics;
}

std::vector<std::string> options_of(const CommandHelp& help) {
    std::vector<std::string> names;
    for (const OptionGroup& group : help.groups)
        for (const auto& option : group.options) names.push_back(option->long_name());
    return names;
}

[[noreturn]] void refuse_topic(const CommandHelp& help, const std::string& topic) {
    const std::vector<std::string> topics = topics_of(help), options = options_of(help);
    std::vector<std::string> known = topics;
    known.insert(known.end(), options.begin(), options.end());
    fail(Exit::usage,
         "--help " + topic + ": convoy " + help.command + " has no such topic" +
             unknown_choice(topic, known,
                            topics.empty() ? list_of(options) : list_of(topics) + ", or the name of an option"));
}

}  // namespace

OptionGroups one_group(const po::options_description& options) { return {{"options", options.options()}}; }

int help_columns() {
    int columns = 0;
    if (const char* given = std::getenv("COLUMNS")) columns = std::atoi(given);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        winsize size{};
        if (columns <= 0 && ioctl(stream, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
    }
    return columns <= 0 ? least_columns : std::clamp(columns, least_columns, most_columns);
}

std::string short_help(const CommandHelp& help) {
    std::vector<std::pair<std::string, std::string>> lines;
    std::vector<std::string> names;
    for (auto [name, text] : help.screen.often) {
        if (const Option* option = find(help, name)) {
            if (text.empty()) text = option->description();
            text += note_on(help.screen, *option, text);
            name = name_of(*option);
        }
        names.push_back(name);
        lines.emplace_back(name, text);
    }
    std::string out = heading_of(help);
    for (const auto& [name, text] : lines) out += entry(name, text, indent_of(names), least_columns);
    const std::vector<std::string> topics = topics_of(help), options = options_of(help);
    const std::string topic = !topics.empty() ? topics.front() : options.empty() ? "" : options.front();
    return out + "\n" + examples_of(help.screen) + "\nall options: convoy " + help.command + " --help" +
           (topic.empty() ? "" : "; some: --help " + topic) + "\n";
}

std::string long_help(const CommandHelp& help, int columns) {
    std::string out = heading_of(help), recipe_switch;
    const size_t indent = indent_of(help.groups);
    for (const OptionGroup& group : help.groups) {
        out += text_of(help.screen, group, indent, columns) + "\n";
        for (const auto& option : group.options)
            if (is_switch(*option) && option->semantic()->max_tokens() > 0) recipe_switch = option->long_name();
    }
    out += examples_of(help.screen);
    if (!recipe_switch.empty() && find(help, "config"))
        out += "\nTo switch off what a recipe switches on: --" + recipe_switch + "=false.";
    const std::vector<std::string> topics = topics_of(help);
    out += "\nOnly some of this: convoy " + help.command + " --help TOPIC\n";
    const std::string which = topics.empty() ? "an option's name" : list_of(topics) + ", or an option's name";
    return out + entry("TOPIC", which, indent, size_t(columns));
}

std::string help_on(const CommandHelp& help, const std::string& topic, int columns) {
    const std::string name = topic.substr(std::min(topic.size(), topic.find_first_not_of('-')));
    const size_t indent = indent_of(help.groups);
    const auto has_word = [&](const OptionGroup& group) {
        const std::vector<std::string> words = topics_of(group.heading);
        return group.heading == name || std::find(words.begin(), words.end(), name) != words.end();
    };
    const bool only_option = topic != name || help.groups.size() < 2;
    for (const OptionGroup& group : help.groups)
        if (!only_option && has_word(group)) return text_of(help.screen, group, indent, columns);
    std::string text;  // options of equal name occur in several kinds of convert
    for (const OptionGroup& group : help.groups)
        for (const auto& option : group.options)
            if (option->long_name() == name) text += text_of(help.screen, {group.heading, {option}}, indent, columns);
    if (text.empty()) refuse_topic(help, topic);
    return text;
}

std::optional<HelpRequest> help_request(const std::vector<std::string>& args) {
    const std::string all = "--help", with_topic = "--help=";
    for (size_t i = 0; i < args.size(); ++i) {
        if (args[i].starts_with(with_topic)) return HelpRequest{true, args[i].substr(with_topic.size())};
        if (args[i] != all && args[i] != "-h") continue;
        HelpRequest request{args[i] == all, ""};
        // an option that other words follow, as in `--help --data DIR`, is no topic
        if (i + 1 < args.size() && (args[i + 1][0] != '-' || i + 2 == args.size())) request.topic = args[i + 1];
        return request;
    }
    return std::nullopt;
}

}  // namespace convoy
