#include "comm/preflight.h"

#include <cstdlib>

#include "comm/host.h"

namespace convoy {
namespace {

/// Checks the variables in which PyTorch's launchers describe ranks: RANK, WORLD_SIZE and
/// MASTER_ADDR. If they contradict MPI, the user expects ranks that are not there.
void check_variables_of_torch(Comm& comm) {
    const std::string advice = "; start ranks with mpirun -np N, not with torchrun, or unset ";
    const auto check = [&](const char* variable, int ours, const char* what) {
        const char* text = std::getenv(variable);
        if (text && *text && text != std::to_string(ours))
            fail(Exit::usage, std::string(variable) + " is " + text + ", but MPI " + what + " " + std::to_string(ours) +
                                  advice + variable);
    };
    check("WORLD_SIZE", comm.size(), "sees a world of");
    check("RANK", comm.rank(), "calls this rank");
    const char* master = std::getenv("MASTER_ADDR");
    if (master && *master && comm.size() == 1 && !is_this_host(master, comm.host()))
        fail(Exit::usage, std::string("MASTER_ADDR is ") + master +
                              ", another host, but MPI sees only this one rank, on " + comm.host() + advice +
                              "MASTER_ADDR");
}

}  // namespace

void check_world(Comm& comm) {
    check_variables_of_torch(comm);
    if (comm.size() > 1) return;
    const char* of_openmpi = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (of_openmpi && std::atoi(of_openmpi) == 1) return;  // mpirun -np 1, even inside a larger Slurm step
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
        if (const char* started = std::getenv(variable); started && std::atoi(started) > 1)
            fail(Exit::usage, std::string("the launcher started ") + started + " processes (" + variable +
                                  "), but MPI sees only this one, so each would train alone; use the mpirun of the MPI "
                                  "that Convoy was built with, or srun --mpi=pmix");
}

void check_alike(Comm& comm, const std::vector<std::pair<std::string, std::string>>& pairs) {
    for (const auto& [name, text] : pairs) {
        const std::vector<std::string> all = comm.gather_all(text);
        for (int r = 1; r < comm.size(); ++r)
            if (all[r] != all[0])
                fail_everywhere(Exit::usage, name + " differs: rank 0 has " + all[0] + ", rank " + std::to_string(r) +
                                                 " has " + all[r] + "; make all hosts use the same files");
    }
}

}  // namespace convoy
