// Paths of this executable and of files of its checkout, relative to the current folder.
#pragma once
#include <string>

namespace convoy {

/// Returns the path of a file of the checkout, such as "src/plot/plot.py"; empty if it is not
/// found. Looks in $CONVOY_HOME if that is set. Else looks next to the executable's folder, then in
/// the folder of its sources. Ignores the current folder and files of other users, because others
/// may create files where the executable was copied or built.
std::string project_file(const std::string& relative);

/// Returns the path of this executable, or of the file that its owner has put there since, as a
/// build does. Empty if there is neither. Another user's file does not count: in /tmp, others can
/// make one where the executable was removed.
std::string own_executable();

/// Returns the command that starts this executable from the current folder: "build/convoy", or its
/// whole path. It is "convoy" if own_executable() is empty.
std::string own_command();

}  // namespace convoy
