// What somebody meant who wrote a name that there is not.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns `name`'s nearest neighbour by edit distance among `known`; empty if none is near enough
/// to be meant. Upper case, dashes and underscores make no difference.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// ", did you mean X?" (X with `prefix`) or "; `otherwise`", for the end of a message about an
/// unknown name.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise,
                         const std::string& prefix = "");

/// Returns the end of a message about an unknown choice: which one may have been meant, if any, and
/// `all_of_them`.
std::string unknown_choice(const std::string& name, const std::vector<std::string>& known,
                           const std::string& all_of_them);

}  // namespace convoy
