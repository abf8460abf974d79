// Suggests the known name that a user probably meant by an unknown one.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns the name in `known` with the least edit distance to `name`; empty if none is near.
/// Ignores case, dashes and underscores.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// Returns the end of a message about an unknown name: ", did you mean X?" (X with `prefix`), or
/// "; `otherwise`" if no known name is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise,
                         const std::string& prefix = "");

/// Returns the end of a message about an unknown choice: the one that was probably meant, if any,
/// and `all_of_them`.
std::string unknown_choice(const std::string& name, const std::vector<std::string>& known,
                           const std::string& all_of_them);

/// Returns "a, b or c", with `last` before the last word.
std::string list_of(const std::vector<std::string>& words, const std::string& last = " or ");

}  // namespace convoy
