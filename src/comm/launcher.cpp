#include "comm/launcher.h"

#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.h"

namespace convoy {

namespace {

/// Returns true for OpenMPI 5 and later. `library` is a text of MPI_Get_library_version.
bool is_of_5(const std::string& library) {
    int major = 0;
    std::sscanf(library.c_str(), "Open MPI v%d.", &major);
    return major >= 5;
}

}  // namespace

std::string mpi_library() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    return text;
}

Grace launcher_grace(const std::string& library) {
    constexpr Grace of_4{.to_term = 1, .to_kill = 2};  // odls_base_sigkill_timeout before each signal
    constexpr Grace of_5{.to_term = 0.25, .to_kill = 0.5};
    return is_of_5(library) ? of_5 : of_4;
}

Grace launcher_grace() { return launcher_grace(mpi_library()); }

namespace {

/// Returns this process's rank as a launcher of MPI set it; null without one.
const char* rank_in_mpi() {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
        if (const char* rank = std::getenv(variable)) return rank;
    return nullptr;
}

}  // namespace

bool is_launched() { return rank_in_mpi(); }

int launched_rank() {
    const char *in_mpi = rank_in_mpi(), *rank = in_mpi ? in_mpi : std::getenv("SLURM_PROCID");
    return rank ? std::atoi(rank) : 0;
}

/// Returns the path that `path` leads to; empty if it leads nowhere.
static std::filesystem::path without_links(const std::filesystem::path& path) {
    std::error_code unknown;
    return std::filesystem::canonical(path, unknown);
}

void check_session_folder() {
    const char* folder = std::getenv("OMPI_MCA_orte_top_session_dir");
    struct stat found;
    if (!folder || ::lstat(folder, &found) != 0) return;
    const auto refuse = [](const std::string& path, const char* wrong) {
        fail(Exit::usage, "mpirun keeps its files in " + path + ", which " + wrong +
                              ": start it with --mca orte_tmpdir_base FOLDER, a folder that only you may write");
    };
    if (S_ISLNK(found.st_mode)) refuse(folder, "is a link");
    if (found.st_uid != ::geteuid()) refuse(folder, "belongs to another user");
    if (found.st_mode & (S_IWGRP | S_IWOTH)) refuse(folder, "may be written by others");
    // mpirun uses the path as it is written, and both it and what it leads to may be exchanged.
    const std::filesystem::path above = std::filesystem::path(folder).parent_path();
    for (const std::filesystem::path& path : {above, without_links(above)})
        if (const auto unsafe = unsafe_folder(path, S_IWOTH)) refuse(unsafe->first, unsafe->second);
}

void ask_no_display() { setenv("HWLOC_COMPONENTS", "-gl", 0); }

SingleProcess::SingleProcess(const std::string& library) {
    if (is_launched()) return;
    // All single processes have the same job number, so they must not share a folder named after
    // it. The only transport is `self`, because `tcp` would listen on every network, though no
    // process will connect.
    for (const auto& [name, value] : {std::pair("OMPI_MCA_ess_singleton_isolated", "1"),
                                      {"OMPI_MCA_orte_create_session_dirs", "0"},
                                      {"OMPI_MCA_pml", "ob1"},
                                      {"OMPI_MCA_btl", "self"}}) {
        if (std::getenv(name)) continue;
        setenv(name, value, 1);
        set_.push_back(name);
    }
    // OpenMPI 5 has no setting for its folder. It uses /tmp/ompi.HOST.UID even if another user made
    // that, and deletes through links in it.
    if (!is_of_5(library)) return;
    const char* tmpdir = std::getenv("TMPDIR");
    if (tmpdir) tmpdir_ = tmpdir;
    // OpenMPI uses the folder by its path until it ends.
    const std::string given = tmpdir_.starts_with('/') ? without_links(tmpdir_).string() : "";
    const bool safe = !given.empty() && !unsafe_folder(given, S_IWGRP | S_IWOTH);
    folder_ = OwnFolder::unique((safe ? given : "/tmp") + "/convoy-mpi-",
                                "set TMPDIR to a folder that only you may write to, with room");
    setenv("TMPDIR", folder_->path().c_str(), 1);
}

SingleProcess::~SingleProcess() {
    for (const char* name : set_) unsetenv(name);
    if (!folder_) return;
    tmpdir_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", tmpdir_.c_str(), 1);
}

}  // namespace convoy
