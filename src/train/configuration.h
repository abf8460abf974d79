// The options of a run as text, as metrics and checkpoints record them and --config reads them.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

using ConfigPairs = std::vector<std::pair<std::string, std::string>>;
/// Options that make Convoy write or delete files. A recipe may not hold them: it may be somebody
/// else's.
const std::set<std::string>& writing_options();
/// "key = value" lines, readable by --config: options without a value, and writing_options(), are
/// comments.
std::string config_text(const ConfigPairs&);
/// Returns what config_text() wrote, the commented options too; lines of another form are skipped.
ConfigPairs config_pairs(const std::string& text);
/// Returns the value of an option in such text; empty if it has none.
std::string config_value(const std::string& text, const std::string& option);

}  // namespace convoy
