#include "cli/preflight.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace convoy {
namespace fs = std::filesystem;

void check_world(Comm& comm) {
    if (comm.size() > 1) return;
    const char* of_openmpi = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (of_openmpi && std::atoi(of_openmpi) == 1) return;  // mpirun -np 1, perhaps within somebody else's step
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
        if (const char* started = std::getenv(variable); started && std::atoi(started) > 1)
            fail(Exit::usage, std::string("the launcher started ") + started + " processes (" + variable +
                                  "), but MPI sees only this one, so each would train alone; use the mpirun of the MPI that Convoy was built with, or srun --mpi=pmix");
}

void check_alike(Comm& comm, const std::vector<std::pair<std::string, std::string>>& pairs) {
    for (const auto& [name, text] : pairs) {
        const std::vector<std::string> all = comm.gather_all(text);
        for (int r = 1; r < comm.size(); ++r)
            if (all[size_t(r)] != all[0])
                fail_everywhere(Exit::usage, name + " differs: rank 0 has " + all[0] + ", rank " + std::to_string(r) + " has " + all[size_t(r)] +
                                                 "; make all hosts use the same files");
    }
}

namespace {
std::string mib(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / (1 << 20));
    return text;
}
}  // namespace

void check_room(const std::string& folder, size_t bytes, const std::string& what_for) {
    std::error_code error;
    fs::path place = fs::absolute(folder, error);
    while (!fs::exists(place, error) && place.has_parent_path() && place != place.parent_path()) place = place.parent_path();
    if (fs::is_directory(place, error) && ::access(place.c_str(), W_OK | X_OK) != 0)
        fail(Exit::io, place.string() + ": cannot be written: " + std::strerror(errno) + "; choose another --output");
    fs::space_info space = fs::space(place, error);
    if (error) return;
    for (const auto& entry : fs::recursive_directory_iterator(folder, error))  // of the run that goes on or is replaced
        if (entry.is_regular_file(error)) space.available += entry.file_size(error);
    if (space.available < bytes)
        fail(Exit::io, folder + ": needs " + mib(bytes) + " for " + what_for + ", but " + mib(space.available) +
                           " are free there; free space, lower --keep, or choose another --output");
}

}  // namespace convoy
