// Where this executable and the files of its checkout are, seen from the folder it was started in.
#pragma once
#include <string>

namespace convoy {

/// A file of the checkout, as "output/plot.py": next to the executable's folder, else in the
/// current one. Empty if it is in neither.
std::string project_file(const std::string& relative);

/// What starts this executable from the current folder: "build/convoy", or its whole path.
std::string own_command();

}  // namespace convoy
