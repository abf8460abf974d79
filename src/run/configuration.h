// The options of a run as text. Metrics and checkpoints record it, and --config reads it.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

using ConfigPairs = std::vector<std::pair<std::string, std::string>>;
/// Returns the options that say where Convoy writes. A resumed run does not take them from the
/// record.
const std::set<std::string>& writing_options();
/// Returns writing_options(), and the options that say what Convoy replaces or deletes, whether it
/// trains at all, and whether a sweep starts mpirun. A recipe may not contain them, because it may
/// come from another person.
const std::set<std::string>& command_line_options();
/// Returns "key = value" lines for --config. Options without a value, and command_line_options(),
/// become comments.
std::string config_text(const ConfigPairs&);
/// Returns the present name of an option. Recipes and records before version 0.2 have `tune`.
std::string present_name(const std::string& option);
/// Returns the options whose values are paths.
const std::set<std::string>& path_options();
/// Parses a text from config_text(), the commented options too. Skips lines of another form.
/// Options have their present names.
ConfigPairs config_pairs(const std::string& text);
/// Changes the value of an option that `pairs` has.
void set_config_value(ConfigPairs& pairs, const std::string& option, const std::string& value);
/// Returns the value of an option in a text from config_text(); empty if it has none.
std::string config_value(const std::string& text, const std::string& option);

}  // namespace convoy
