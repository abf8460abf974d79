// Opens the CUDA backend, libconvoy_cuda.so next to the executable, on first use. CUDA's libraries
// are loaded with it, not before.
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "backend/cuda_entry.h"
#include "base/elf.h"
#include "base/folder.h"
#include "base/version.h"
#include "comm/comm.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr const char* file_name = "libconvoy_cuda.so";

/// Either the backend or the reason why there is none.
struct Opened {
    const CudaEntry* backend = nullptr;
    std::string problem{};
};

fs::path path_of_backend() {
    std::error_code unknown;  // if the path is unknown, the loader searches for the file
    return fs::read_symlink("/proc/self/exe", unknown).parent_path() / file_name;
}

/// Returns the file that the loader takes for a library's name; empty if it finds none. The library
/// stays loaded.
std::string path_of_library(const std::string& name) {
    void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    link_map* loaded = nullptr;
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &loaded) != 0) return "";
    return loaded->l_name;
}

/// Joins names: "a", "a and b", "a, b and c".
std::string enumerated(const std::vector<std::string>& names) {
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return text;
}

/// Explains why a backend could not be opened; `why` is the loader's message.
std::string problem_with(const fs::path& backend, const std::string& why) {
    if (!is_there(backend))
        return backend.string() + ", the CUDA backend, is not there; copy it from the folder that convoy was built in";
    std::vector<std::string> missing;
    for (const CudaLibrary& l : cuda_libraries())
        if (l.path.empty()) missing.push_back(l.name);
    if (missing.empty())
        return "the CUDA backend cannot be loaded: " + why + "; build convoy again on a machine like this";
    return enumerated(missing) + (missing.size() == 1 ? " is" : " are") +
           " not to be found on this machine; load the modules of CUDA, cuDNN and NCCL, or name the folder in "
           "LD_LIBRARY_PATH";
}

/// Returns a problem if another user owns the library, who could have put it beside an executable
/// in /tmp; else "". The owner of the executable and root are no strangers.
std::string stranger_at(const fs::path& path) {
    struct stat library{}, executable{};
    if (::stat(path.c_str(), &library) != 0 || ::stat("/proc/self/exe", &executable) != 0) return "";
    if (library.st_uid == ::geteuid() || library.st_uid == 0 || library.st_uid == executable.st_uid) return "";
    return path.string() + " belongs to another user (uid " + std::to_string(library.st_uid) +
           ") and is not loaded; copy it and the executable to a folder of yours";
}

Opened open_backend() {
    const fs::path path = path_of_backend();
    if (const std::string problem = stranger_at(path); !problem.empty()) return {.problem = problem};
    // never closed, because objects that it created live as long as the process
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return {.problem = problem_with(path, dlerror())};
    const auto* backend = static_cast<const CudaEntry*>(dlsym(library, "convoy_cuda"));
    const std::string theirs = backend ? backend->commit : "unknown";
    if (theirs != commit())
        return {.problem = path.string() + " is of another build (" + theirs + ") than this executable (" + commit() +
                           "); copy both from one folder"};
    return {.backend = backend};
}

}  // namespace

std::string cuda_unloadable() { return open_backend().problem; }

std::string cuda_unavailable() {
    const Opened opened = open_backend();
    return opened.backend ? opened.backend->unavailable() : opened.problem;
}

Versions cuda_versions() {
    const Opened opened = open_backend();
    return opened.backend ? opened.backend->versions() : Versions();
}

std::vector<CudaLibrary> cuda_libraries() {
    const fs::path backend = path_of_backend();
    std::vector<CudaLibrary> libraries = {{file_name, is_there(backend) ? backend.string() : ""}};
    const std::vector<std::string> here = needed_libraries("/proc/self/exe");
    for (const std::string& name : needed_libraries(backend))
        if (name.starts_with("lib") && std::find(here.begin(), here.end(), name) == here.end())
            libraries.push_back({name, path_of_library(name)});
    return libraries;
}

std::string plan_table(const Graph& graph, const PlannedStep& step, const std::string& chip) {
    const Opened opened = open_backend();
    if (!opened.backend) fail(Exit::usage, "--plans: " + opened.problem);
    return opened.backend->plan_table(graph, step, chip);
}

int first_capability() {
    const Opened opened = open_backend();
    if (!opened.backend) fail(Exit::usage, "--run: " + opened.problem);
    return opened.backend->first_capability();
}

bool probe_plans(const std::vector<cuda::PlanSpec>& specs, const std::function<void(const std::string&)>& say) {
    return open_backend().backend->probe_plans(specs, say);
}

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options, Comm& comm) {
    Opened opened;
    comm.together([&] {
        opened = open_backend();
        if (!opened.backend)
            fail(Exit::usage, "--device cuda: rank " + std::to_string(comm.rank()) + " on " + comm.host() + ": " +
                                  opened.problem + "; or use --device cpu");
    });
    return opened.backend->make_backend(options, comm);
}

}  // namespace convoy
