// OpenMPI's ranks of a node send through files vader_segment.* (4 MiB each; sm_segment.* since
// OpenMPI 5), and share windows through files osc_sm.*; by default all of them lie in /dev/shm. It
// removes them at its end. After a kill -9 of mpirun or the loss of a node they would take memory
// for ever. Their names can be guessed, and OpenMPI takes files over that another user made before.
#pragma once
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace convoy {

/// The segments that this process maps and that still have a name, each once.
std::vector<std::string> mapped_segments();

/// Takes the names away: the files last as long as processes map them. Only once every rank of the
/// node maps them all.
void remove_names(const std::vector<std::string>& segments);

/// Gives each name back, of an empty file: OpenMPI complains in MPI_Finalize about a name that is
/// gone.
void restore_names(const std::vector<std::string>& segments);

/// A folder in /dev/shm that only this user may enter (mode 0700, a random name). OpenMPI makes the
/// files of this rank there, if this object is made before MPI_Init and destroyed after
/// MPI_Finalize. It holds no file while the rank computes. A process that is killed leaves it
/// empty, and the next start removes it: a folder that no living process uses has no lock.
///
/// No folder is made if no launcher started this process, if one of OpenMPI's settings names
/// another place, or if /dev/shm takes no folder.
class SegmentFolder {
public:
    SegmentFolder();
    /// Does what remove() does.
    ~SegmentFolder();
    SegmentFolder(const SegmentFolder&) = delete;
    SegmentFolder& operator=(const SegmentFolder&) = delete;

    /// Removes the folder, unless a file is in it. For a process that is about to be ended.
    void remove();
    /// Empty if there is none.
    const std::string& path() const { return path_; }

private:
    std::string path_;
    Descriptor folder_{-1};  // open and locked
};

}  // namespace convoy
