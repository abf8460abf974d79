// Facts about launchers: how mpirun of OpenMPI 4.1 and 5.0 ends its ranks, and what a launcher says
// in the environment.
#pragma once
#include <string>
#include <vector>

namespace convoy {

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

/// True if the environment says that a launcher started this process.
bool is_launched();

/// Returns this process's rank as its launcher says it, before MPI starts; 0 without a launcher.
int launched_rank();

/// Throws Exit::usage if the folder where mpirun of OpenMPI 4 keeps its files on this host is a
/// link, belongs to another user, or may be written by others, or if this is so for a folder above
/// it (which may have the sticky bit). It has a name that can be guessed,
/// and mpirun uses one that is there already.
void check_session_folder();

/// Tells hwloc, Convoy's own and OpenMPI's, not to ask X servers for GPUs. Where none runs, another
/// user can answer in its place. A value of HWLOC_COMPONENTS that is set already is kept. Call it
/// first in main; programs that this one starts inherit the setting.
void ask_no_display();

/// If no launcher started this process, tells OpenMPI through the environment to start without its
/// daemon, its folder, its search for network cards and its open ports, while this object lives.
/// This saves 0.3 s.
/// Variables that are set already keep their values.
class SingleProcess {
public:
    SingleProcess();
    ~SingleProcess();
    SingleProcess(const SingleProcess&) = delete;
    SingleProcess& operator=(const SingleProcess&) = delete;

private:
    std::vector<const char*> set_;  ///< variables that were not set before
};

}  // namespace convoy
