// Strict option parsing, shared by every subcommand: no abbreviations, nothing unknown is ignored.
// Every mistake throws Error(Exit::usage), with one line that names the option, the value and what
// is allowed.
#pragma once
#include <boost/program_options.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest_name.h"
#include "base/tensor.h"

namespace convoy {

/// Parses `args` (the arguments after the subcommand). If an option is given twice, the last one
/// wins.
boost::program_options::variables_map parse(
    const boost::program_options::options_description& options, const std::vector<std::string>& args,
    const boost::program_options::positional_options_description& positional = {});

struct ConfiguredValues {
    boost::program_options::variables_map values;
    std::map<std::string, std::string> from_file{};  ///< the file that an option's value is from
};
/// Parses options as parse() does. One of them is `config`, a file of lines `key = value`. Keys are
/// the long option names; `#` starts a comment. Options on the command line win over the file. Only
/// one option of an `alternatives` set can be given: one on the command line replaces the others of
/// that set in the file. The command line may have only options in `own`. The file may have options
/// in `only_flags` only with their default value. Throws Exit::bad_input for an unreadable file.
/// Throws Exit::usage, naming file and line, for a mistake in the file.
ConfiguredValues parse_with_config(const boost::program_options::options_description& options,
                                   const boost::program_options::options_description& own,
                                   const std::vector<std::string>& args,
                                   const std::vector<std::set<std::string>>& alternatives = {},
                                   const std::set<std::string>& only_flags = {});

/// Stores the (name, value) pairs that a run recorded in `path`, for options that were not given;
/// an empty value counts as none. Returns the names that are no options; they are left out. Throws
/// Exit::usage.
std::vector<std::string> store_recorded(const boost::program_options::options_description& options,
                                        const std::string& path,
                                        const std::vector<std::pair<std::string, std::string>>& recorded,
                                        const std::vector<std::set<std::string>>& alternatives, ConfiguredValues&);

/// Returns the value of each option that has a default.
boost::program_options::variables_map defaults_of(const boost::program_options::options_description& options);

/// Returns the value of a required option. Throws Exit::usage, naming it, if it is missing.
std::string required_value(const boost::program_options::variables_map& values, const std::string& option);

/// Returns a whole number within [low, high]. `option` must have been declared with value<int64_t>.
int64_t value_in_range(const boost::program_options::variables_map& values, const std::string& option, int64_t low,
                       int64_t high);

/// Returns [1, height, width, channels] for "32x32x3", the value of `option`.
Shape parse_image_size(const std::string& option, const std::string& text);

/// Returns sizes in bytes: 65536 for "64K"; for "1K..1M" 1024 and its doubles up to 1048576. K, M
/// and G are powers of 1024; each size is rounded up to a multiple of 4. Throws Exit::usage.
std::vector<size_t> parse_sizes(const std::string& text);

/// Returns "convoy train --data DIR …", for the metrics.
std::string command_line_of(const std::string& command, const std::vector<std::string>& args);

}  // namespace convoy
