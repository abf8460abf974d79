// The files through which OpenMPI's ranks of a node communicate, by default in /dev/shm. Ranks send
// through vader_segment.* (4 MiB each; sm_segment.* since OpenMPI 5) and share windows through
// osc_sm.*. OpenMPI removes these files when it ends. After a kill -9 of mpirun or the loss of a
// node, they would take memory for ever. Their names can be guessed, and OpenMPI uses a file even
// if another user made it.
#pragma once
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace convoy {

/// Returns the segments that this process maps and that still have a name, each once.
std::vector<std::string> mapped_segments();

/// Removes the names. The files last as long as processes map them. Call it only when every rank of
/// the node maps them all.
void remove_names(const std::vector<std::string>& segments);

/// Makes an empty file for each name again, because MPI_Finalize complains about a missing name.
void restore_names(const std::vector<std::string>& segments);

/// A folder in /dev/shm that only this user may enter (mode 0700, a random name). OpenMPI makes
/// this rank's files there, if this object is made before MPI_Init and destroyed after
/// MPI_Finalize. The folder holds no file while the rank computes. If the process is killed, an
/// empty folder without a lock remains, and the next start removes it.
///
/// No folder is made if no launcher started this process, or if a setting of OpenMPI names another
/// place. None is made either if this user may not write to /dev/shm, because OpenMPI does not use
/// it then.
class SegmentFolder {
public:
    /// Throws Exit::io if /dev/shm is full. OpenMPI would use files there that other users can have
    /// made before.
    SegmentFolder();
    /// Does what remove() does.
    ~SegmentFolder();
    SegmentFolder(const SegmentFolder&) = delete;
    SegmentFolder& operator=(const SegmentFolder&) = delete;

    /// Removes the folder, unless a file is in it. Call it also when this process is about to be
    /// ended.
    void remove();
    /// Returns the path; empty if there is no folder.
    const std::string& path() const { return path_; }

private:
    std::string path_;
    Descriptor folder_{-1};  // open and locked
};

}  // namespace convoy
