// Facts about launchers: how mpirun of OpenMPI 4.1 and 5.0 ends its ranks, and which environment
// variables a launcher sets.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/own_folder.h"

namespace convoy {

/// Returns the name of the MPI library. It need not have been started.
std::string mpi_library();

/// How long mpirun waits after it has received a SIGTERM or SIGINT. It sends a SIGCONT to its ranks
/// at once, then a SIGTERM, then a SIGKILL. Units: seconds since the signal.
struct Grace {
    double to_term, to_kill;
};

/// Returns the times of the MPI that is running.
Grace launcher_grace();
/// Returns the times of a library as MPI_Get_library_version names it ("Open MPI v5.0.7, package:
/// …"). Libraries other than OpenMPI count as its version 4.
Grace launcher_grace(const std::string& library);

/// Returns true if the environment says that a launcher of MPI started this process. Slurm's
/// SLURM_PROCID does not say so, because batch scripts and shells of jobs have it, too.
bool is_launched();

/// Returns this process's rank from the launcher's environment, before MPI starts; 0 without a
/// launcher.
int launched_rank();

/// Checks the folder where mpirun of OpenMPI 4 keeps its files on this host. Its name can be
/// guessed, and mpirun uses such a folder even if another user made it. Throws Exit::usage if the
/// folder is a link, belongs to another user, or may be written by others. A folder above it must
/// not belong to another person. Others may write to it only if it has the sticky bit.
void check_session_folder();

/// Keeps hwloc, in Convoy and in OpenMPI, from asking X servers for GPUs. If no X server runs,
/// another user can answer in its place. Does not change HWLOC_COMPONENTS if that is set already.
/// Call it first in main; child processes inherit the setting.
void ask_no_display();

/// Environment variables for a process that no launcher started; unset again by the destructor.
/// OpenMPI then starts without its daemon, its search for network cards and its open ports, and
/// without a folder that others can make first. This saves 0.3 s. Variables that are already set
/// stay unchanged, except TMPDIR.
class SingleProcess {
public:
    /// Throws Exit::io if OpenMPI 5 needs a folder and none can be made.
    explicit SingleProcess(const std::string& library = mpi_library());
    ~SingleProcess();
    SingleProcess(const SingleProcess&) = delete;
    SingleProcess& operator=(const SingleProcess&) = delete;

    /// Returns the folder of OpenMPI 5, to be removed after MPI_Finalize(). OpenMPI 4 needs none.
    const std::optional<OwnFolder>& folder() const { return folder_; }

private:
    std::vector<const char*> set_;  ///< variables that were not set before
    std::string tmpdir_;            ///< TMPDIR before; empty: it was not set
    std::optional<OwnFolder> folder_;
};

}  // namespace convoy
