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

/// Parses `args` (what follows the subcommand). The last of two options of one name wins.
boost::program_options::variables_map parse(
    const boost::program_options::options_description& options, const std::vector<std::string>& args,
    const boost::program_options::positional_options_description& positional = {});

struct ConfiguredValues {
    boost::program_options::variables_map values;
    std::map<std::string, std::string> from_file{};  ///< the file that an option's value is from
};
/// Parses options as parse() does; one of them is `config`, a file of lines `key = value`. Keys are
/// the long option names; `#` starts a comment. Options on the command line win over the file. Of
/// the options in an `alternatives` set only one can be given: one on the command line replaces the
/// file's others. `own` are those of `options` that the command line may have, `only_flags` those
/// that a file may not have, but as `false`. An unreadable file is Exit::bad_input; a mistake in it
/// is Exit::usage and names file and line.
ConfiguredValues parse_with_config(const boost::program_options::options_description& options,
                                   const boost::program_options::options_description& own,
                                   const std::vector<std::string>& args,
                                   const std::vector<std::set<std::string>>& alternatives = {},
                                   const std::set<std::string>& only_flags = {});

/// Stores what a run recorded in `path`, as (name, value), where nothing else was given; an empty
/// value counts as none. Returns the names that are no options, and left out. Throws Exit::usage.
std::vector<std::string> store_recorded(const boost::program_options::options_description& options,
                                        const std::string& path,
                                        const std::vector<std::pair<std::string, std::string>>& recorded,
                                        const std::vector<std::set<std::string>>& alternatives, ConfiguredValues&);

/// The value of each option that has a default.
boost::program_options::variables_map defaults_of(const boost::program_options::options_description& options);

/// The value of an option that must be there; names it otherwise.
std::string required_value(const boost::program_options::variables_map& values, const std::string& option);

/// A whole number within [low, high]; `option` must have been declared with value<int64_t>.
int64_t value_in_range(const boost::program_options::variables_map& values, const std::string& option, int64_t low,
                       int64_t high);

/// [1, height, width, channels] of "32x32x3", the value of `option`.
Shape parse_image_size(const std::string& option, const std::string& text);

/// "64K" is 65536; "1K..1M" are the sizes from 1024 on, doubled up to 1048576. K, M and G are
/// powers of 1024, each size is rounded up to a multiple of 4. Throws Exit::usage.
std::vector<size_t> parse_sizes(const std::string& text);

/// "convoy train --data DIR …", for the metrics.
std::string command_line_of(const std::string& command, const std::vector<std::string>& args);

}  // namespace convoy
