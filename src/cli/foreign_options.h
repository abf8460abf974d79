// Options that people know from PyTorch's scripts and launchers, and what there is here. They are
// no aliases: the error names ours.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// Returns the name of the option that an argument gives: "seed" of "--seed=3".
std::string without_dashes(const std::string& argument);

/// Returns advice for an option of another program; empty if it is none that is known, one
/// that `is_ours`, or if what is known names options that the command does not have. `name` has no
/// dashes in front; within, '_' counts as '-': "gpu_devices", "td".
std::string instead_of_foreign(std::string name, const std::function<bool(const std::string&)>& is_ours);

/// Throws Exit::usage for the first of the arguments that is such an option.
void refuse_foreign(const std::vector<std::string>& args, const std::function<bool(const std::string&)>& is_ours);

}  // namespace convoy
