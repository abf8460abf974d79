#include "comm/launcher.h"

#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.h"

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

namespace {

/// Returns this process's rank as the launcher set it; null without a launcher.
const char* rank_in_environment() {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* rank = std::getenv(variable)) return rank;
    return nullptr;
}

}  // namespace

bool is_launched() { return rank_in_environment(); }

int launched_rank() {
    const char* rank = rank_in_environment();
    return rank ? std::atoi(rank) : 0;
}

void check_session_folder() {
    const char* folder = std::getenv("OMPI_MCA_orte_top_session_dir");
    struct stat found;
    if (!folder || ::lstat(folder, &found) != 0) return;
    const char* wrong = S_ISLNK(found.st_mode)                ? "is a link"
                        : found.st_uid != ::geteuid()         ? "belongs to another user"
                        : found.st_mode & (S_IWGRP | S_IWOTH) ? "may be written by others"
                                                              : nullptr;
    if (wrong)
        fail(Exit::usage, std::string("mpirun keeps its files in ") + folder + ", which " + wrong +
                              ": start it with --mca orte_tmpdir_base FOLDER, a folder that only you may write");
}

SingleProcess::SingleProcess() {
    if (is_launched()) return;
    // Such processes all have the same job number, so they must not share a folder of that name.
    for (const auto& [name, value] : {std::pair("OMPI_MCA_ess_singleton_isolated", "1"),
                                      {"OMPI_MCA_orte_create_session_dirs", "0"},
                                      {"OMPI_MCA_pml", "ob1"}}) {
        if (std::getenv(name)) continue;
        setenv(name, value, 1);
        set_.push_back(name);
    }
}

SingleProcess::~SingleProcess() {
    for (const char* name : set_) unsetenv(name);
}

}  // namespace convoy
