// Paths of this executable and of files of its checkout, relative to the current folder.
#pragma once
#include <sys/stat.h>

#include <string>

namespace convoy {

/// Returns the path of a file of the checkout, such as "src/plot/plot.py"; empty if it is not
/// found. Looks in $CONVOY_HOME if that is set. Else looks next to the executable's folder, then in
/// the folder of its sources. Ignores the current folder and files of other users, because others
/// may create files where the executable was copied or built.
std::string project_file(const std::string& relative);

/// Like project_file(), for a Python script, which imports others of its folder. A script is
/// ignored if any file of that folder belongs to another user. Throws Exit::bad_input if no script
/// is left; the message names that file.
std::string project_script(const std::string& relative);

/// Returns true if another user may have put `entry` into `folder`, although a trusted user owns
/// `entry`. Other users can make hard links to files that they may write, and move folders and
/// symbolic links that they may write, into a folder that they may write. A folder that only a
/// group may write is trusted, unless its sticky bit shows that its members do not trust each
/// other.
bool may_be_put_there(const struct stat& entry, const std::string& folder);

/// Returns the command that starts this executable from the current folder, for messages:
/// "build/convoy", or its whole path. If the executable's owner has replaced the file, as a build
/// does, it names the new one. It is "convoy" if the file was removed or belongs to another user.
std::string own_command();

}  // namespace convoy
