// What somebody meant who wrote a name that there is not.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// `name`'s nearest neighbour by edit distance among `known`; empty if none is near enough to be
/// meant.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// ", did you mean X?" (X with `prefix`) or "; `otherwise`", for the end of a message about an
/// unknown name.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known, const std::string& otherwise,
                         const std::string& prefix = "");

}  // namespace convoy
