#include "comm/launcher.h"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace convoy {

Grace launcher_grace(const std::string& library) {
    constexpr Grace of_4{.to_term = 1, .to_kill = 2};  // odls_base_sigkill_timeout, twice
    constexpr Grace of_5{.to_term = 0.25, .to_kill = 0.5};
    int major = 0;
    std::sscanf(library.c_str(), "Open MPI v%d.", &major);
    return major >= 5 ? of_5 : of_4;
}

Grace launcher_grace() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    return launcher_grace(text);
}

int launched_rank() {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* rank = std::getenv(variable)) return std::atoi(rank);
    return 0;
}

}  // namespace convoy
