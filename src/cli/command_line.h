// Strict option parsing shared by every subcommand: no abbreviations, nothing unknown is ignored, and every mistake is one line
// that names the option, the value and what is allowed. Throws Error(Exit::usage) for all of them.
#pragma once
#include <boost/program_options.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace convoy {

/// Parses `args` (what follows the subcommand).
boost::program_options::variables_map parse(const boost::program_options::options_description& options,
                                            const std::vector<std::string>& args,
                                            const boost::program_options::positional_options_description& positional = {});

struct ConfiguredValues {
    boost::program_options::variables_map values;
    std::set<std::string> from_file;  ///< options whose value is the file's
};
/// As parse, for options of which one is `config`, a file: lines `key = value` whose keys are the long option names, `#` starts a
/// comment. Options on the command line win over the file. Of the options in an `alternatives` set only one can be given:
/// one on the command line replaces the file's others. An unreadable file is Exit::bad_input; a mistake in it is
/// Exit::usage and names file and line.
ConfiguredValues parse_with_config(const boost::program_options::options_description& options, const std::vector<std::string>& args,
                                   const std::vector<std::set<std::string>>& alternatives = {});

/// The values that nobody needs to give.
boost::program_options::variables_map defaults_of(const boost::program_options::options_description& options);

/// `name`'s nearest neighbour by edit distance among `known`; empty if none is near enough to be meant.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// ", did you mean X?" (X with `prefix`) or "; `otherwise`", for the end of a message about an unknown name.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise,
                         const std::string& prefix = "");

/// The value of an option that must be there; names it otherwise.
std::string required_value(const boost::program_options::variables_map& values, const std::string& option);

/// A whole number within [low, high]; `option` must have been declared with value<int64_t>.
int64_t value_in_range(const boost::program_options::variables_map& values, const std::string& option, int64_t low, int64_t high);

/// [1, height, width, channels] of "32x32x3", the value of `option`.
Shape image_size_of(const std::string& option, const std::string& text);

}  // namespace convoy
