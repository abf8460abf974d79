// --log-dir: a file for the lines of each rank.
#pragma once
#include <string>

#include "base/descriptor.h"

namespace convoy {

/// Returns "DIR/rank-0003.log".
std::string log_path(const std::string& folder, int rank);

/// Returns a note that says where logs go if DIR is a link; else empty.
std::string note_on_log_link(const std::string& folder);
/// Returns a warning as warning_of_owner() words it, if other users can change what lies in DIR;
/// else empty.
std::string warning_of_log_folder(const std::string& folder);

/// Appends lines to a file, after what is already in it. Only one process may use the file at a
/// time.
class LogFile {
public:
    /// Makes the folder and the file. Throws Exit::io if the file cannot be made, or if it is a
    /// link, a pipe or a device. Also throws it if the folder is a link of another user. Throws
    /// Exit::usage if another run writes there.
    explicit LogFile(const std::string& path);
    LogFile(const LogFile&) = delete;

    /// Appends a line. Once a line could not be written, returns false and writes no more.
    bool add(const std::string& line);
    const std::string& path() const { return path_; }

private:
    const std::string path_;
    Descriptor file_{-1};
};

}  // namespace convoy
