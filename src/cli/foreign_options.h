// Options that people know from PyTorch's scripts and launchers, and the option of Convoy that
// replaces each. They are refused with an error that names Convoy's option.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// Returns the name of an option without dashes and value: "seed" for "--seed=3".
std::string without_dashes(const std::string& argument);

/// Returns advice for an option of another program. Empty if the option is not known, if `is_ours`
/// is true for it, or if the advice names options that the command does not have. `name` has no
/// dashes in front, as in "gpu_devices" or "td". A '_' in `name` counts as '-'.
std::string instead_of_foreign(std::string name, const std::function<bool(const std::string&)>& is_ours);

/// Throws Exit::usage for the first argument that is an option of another program.
void refuse_foreign(const std::vector<std::string>& args, const std::function<bool(const std::string&)>& is_ours);

}  // namespace convoy
