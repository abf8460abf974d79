// --log-dir: the file of one rank's lines.
#pragma once
#include <string>

#include "base/descriptor.h"

namespace convoy {

/// DIR/rank-0003.log
std::string log_path(const std::string& folder, int rank);

/// Returns where logs go if DIR is a link; empty if it is none.
std::string note_on_log_link(const std::string& folder);
/// Returns a warning if other users can change what lies in DIR, as warning_of_owner(); else empty.
std::string warning_of_log_folder(const std::string& folder);

/// Lines at the end of a file, which keeps what it has. One process at a time.
class LogFile {
public:
    /// Makes the folder and the file. Throws Exit::io if the file cannot be made, or is a link, a
    /// pipe or a device, or if the folder is a link of another user; Exit::usage if another run
    /// writes there.
    explicit LogFile(const std::string& path);
    LogFile(const LogFile&) = delete;

    /// False once a line could not be written: then no more are.
    bool add(const std::string& line);
    const std::string& path() const { return path_; }

private:
    const std::string path_;
    Descriptor file_{-1};
};

}  // namespace convoy
