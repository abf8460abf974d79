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

/// Options under one heading, whose words are topics of --help. Use them only to print help, not to
/// parse: the variables that Boost would set may no longer exist.
struct OptionGroup {
    std::string heading;
    std::vector<boost::shared_ptr<boost::program_options::option_description>> options;
};
using OptionGroups = std::vector<OptionGroup>;
/// Returns all options of a command that has no groups.
OptionGroups one_group(const boost::program_options::options_description&);

/// The words of a command's help besides its options.
struct HelpScreen {
    std::string usage;  ///< text after the command's name
    std::string does;   ///< purpose of the command, one line
    /// Lines of -h: an option's name, or other words, and a short text. If the text is empty, the
    /// option's own description is used.
    std::vector<std::pair<std::string, std::string>> often;
    std::vector<std::string> examples;
    /// Options without which the command is refused. One option of a set is enough.
    std::vector<std::set<std::string>> required;
};
/// Returns the screen of "train", or of "convert mnist"; null if there is no such command.
const HelpScreen* screen_of(const std::string& command);

struct CommandHelp {
    std::string command;  ///< name as in screen_of()
    HelpScreen screen;
    OptionGroups groups;
};

/// Returns the number of columns for help, from 80 to 120: COLUMNS if that is a number, else those
/// of the terminal, else 80.
int help_columns();

/// Returns what -h prints: at most 24 lines of 80 columns.
std::string short_help(const CommandHelp&);
/// Returns what --help prints.
std::string long_help(const CommandHelp&, int columns);
/// Returns the help on one group, or on one option if `topic` starts with dashes. Throws
/// Exit::usage, naming the known topics, for an unknown one.
std::string help_on(const CommandHelp&, const std::string& topic, int columns);

/// The kind of help that a command line asks for.
struct HelpRequest {
    bool all = false;   ///< --help, not -h
    std::string topic;  ///< empty: none
};
/// Reads the arguments after a command's name. Returns nothing if they do not ask for help. If they
/// do, the other arguments are ignored.
std::optional<HelpRequest> help_request(const std::vector<std::string>& args);

}  // namespace convoy
