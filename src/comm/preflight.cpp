#include "comm/preflight.h"

#include <cstdlib>

namespace convoy {

void check_world(Comm& comm) {
    if (comm.size() > 1) return;
    const char* of_openmpi = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (of_openmpi && std::atoi(of_openmpi) == 1) return;  // mpirun -np 1, perhaps within somebody else's step
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
            if (all[size_t(r)] != all[0])
                fail_everywhere(Exit::usage, name + " differs: rank 0 has " + all[0] + ", rank " + std::to_string(r) +
                                                 " has " + all[size_t(r)] + "; make all hosts use the same files");
    }
}

}  // namespace convoy
