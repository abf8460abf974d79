// Where this executable and the files of its checkout are, seen from the folder it was started in.
#pragma once
#include <string>

namespace convoy {

/// Returns the path of a file of the checkout, as "src/plot/plot.py": in $CONVOY_HOME if that is
/// set, else next to the executable's folder, else in the folder that it was built from. Empty if
/// it is in none. The current folder never counts, and files of other users do not: an executable
/// may be copied into a folder where others make names, or be built in one.
std::string project_file(const std::string& relative);

/// What starts this executable from the current folder: "build/convoy", or its whole path.
std::string own_command();

}  // namespace convoy
