// Prints -h and --help of a command: one screen, or all options in the terminal's width. Boost
// parses the options; this only prints their descriptions. help_screens.cpp has the words.
#pragma once
#include <boost/program_options.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// Options under one heading, whose words are topics of --help. They are to be shown, not to be
/// parsed with: the variables that Boost would set may be gone.
struct OptionGroup {
    std::string heading;
    std::vector<boost::shared_ptr<boost::program_options::option_description>> options;
};
using OptionGroups = std::vector<OptionGroup>;
/// All options of a command that has no groups.
OptionGroups one_group(const boost::program_options::options_description&);

/// The words of a command's help besides its options.
struct HelpScreen {
    std::string usage;  ///< what follows the command's name
    std::string does;   ///< one line
    /// Lines of -h: an option's name, or other words, and a short text. Empty: the option's own.
    std::vector<std::pair<std::string, std::string>> often;
    std::vector<std::string> examples;
    /// Options without which the command is refused; of two in a set, one is enough.
    std::vector<std::set<std::string>> required;
};
/// Returns the screen of "train", or of "convert mnist"; null if there is no such command.
const HelpScreen* screen_of(const std::string& command);

struct CommandHelp {
    std::string command;  ///< as of screen_of()
    HelpScreen screen;
    OptionGroups groups;
};

/// Returns the columns that help may take: COLUMNS if that is a number, else those of the terminal,
/// else 80; from 80 to 120.
int help_columns();

/// Returns what -h prints: at most 24 lines of 80 columns.
std::string short_help(const CommandHelp&);
/// Returns what --help prints.
std::string long_help(const CommandHelp&, int columns);
/// Returns one group, or one option: that alone where `topic` starts with dashes. Throws
/// Exit::usage for an unknown topic, and says which there are.
std::string help_on(const CommandHelp&, const std::string& topic, int columns);

/// The kind of help that a command line asks for.
struct HelpRequest {
    bool all = false;   ///< --help, not -h
    std::string topic;  ///< empty: none
};
/// Reads the arguments after a command's name. Nothing if they do not ask for help; whatever else
/// they say does not matter then.
std::optional<HelpRequest> help_request(const std::vector<std::string>& args);

}  // namespace convoy
