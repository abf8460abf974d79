// What is known of launchers: of OpenMPI's mpirun, which ended up differently in 4.1 and in 5.0,
// and what any launcher says in the environment.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// What mpirun does to its ranks after a SIGTERM or SIGINT of its own: a SIGCONT at once, a SIGTERM
/// and a SIGKILL so many seconds later.
struct Grace {
    double to_term, to_kill;
};

/// Of the MPI that is running.
Grace launcher_grace();
/// As MPI_Get_library_version names it: "Open MPI v5.0.7, package: …". Other libraries than OpenMPI
/// count as its version 4.
Grace launcher_grace(const std::string& library);

/// Whether a launcher started this process, as its environment says.
bool is_launched();

/// This process's rank as its launcher says it, before MPI starts; 0 without a launcher.
int launched_rank();

/// Throws Exit::usage if the folder where mpirun of OpenMPI 4 keeps its files on this host is a
/// link, belongs to another user, or may be written by others. It has a name that can be guessed,
/// and mpirun uses one that is there already.
void check_session_folder();

/// If no launcher started this process, tells OpenMPI through the environment to start without its
/// daemon, its folder and its search for network cards, while this object lives. This saves 0.3 s.
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
