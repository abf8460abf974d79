// Opens the CUDA backend, libconvoy_cuda.so next to the executable, on first use. CUDA's libraries
// are loaded with it, not before.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend/cuda_entry.h"
#include "base/descriptor.h"
#include "base/elf.h"
#include "base/folder.h"
#include "base/nearest_name.h"
#include "base/project.h"
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

/// The backend's file. It is opened once, so that what is read and loaded is what was checked.
struct BackendFile {
    fs::path path;
    Descriptor file{-1};
    std::string problem{};  ///< why the file cannot be loaded; empty if it can

    /// Returns a path of the opened file, even if another file is at `path` by now.
    std::string opened_path() const { return "/proc/self/fd/" + std::to_string(file.fd()); }
};

fs::path path_of_backend() {
    std::error_code unknown;
    return fs::read_symlink("/proc/self/exe", unknown).parent_path() / file_name;
}

/// Returns a problem if the file belongs to a user other than this one, root and the executable's
/// owner, or may be another user's hard link; else "". In /tmp, any user can put a file beside the
/// executable.
std::string stranger_of(const fs::path& path, const struct stat& file, const struct stat& executable) {
    if (may_be_put_there(file, path.parent_path()))
        return path.string() +
               " may be written by others, in a folder where others may make links, and is not loaded; " +
               "copy it and the executable to a folder of yours";
    if (file.st_uid == ::geteuid() || file.st_uid == 0 || file.st_uid == executable.st_uid) return "";
    return path.string() + " belongs to another user (uid " + std::to_string(file.st_uid) +
           ") and is not loaded; copy it and the executable to a folder of yours";
}

BackendFile open_file() {
    BackendFile opened{.path = path_of_backend()};
    const std::string name = opened.path.string() + ", the CUDA backend, ";
    struct stat executable{}, link{}, file{};
    if (::stat("/proc/self/exe", &executable) != 0 || !opened.path.is_absolute()) {
        opened.problem = "/proc does not say where this executable is, and " + name + "is beside it; mount /proc";
    } else if (::lstat(opened.path.c_str(), &link) != 0) {
        opened.problem = errno == ENOENT ? name + "is not there; copy it from the folder that convoy was built in"
                                         : name + "cannot be read: " + std::strerror(errno);
    } else if (opened.problem = stranger_of(opened.path, link, executable); opened.problem.empty()) {
        opened.file = Descriptor(::open(opened.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (!opened.file.valid() || ::fstat(opened.file.fd(), &file) != 0)
            opened.problem = name + "cannot be read: " + std::strerror(errno);
        else if (!S_ISREG(file.st_mode))
            opened.problem = name + "is not a file; copy it from the folder that convoy was built in";
        else
            opened.problem = stranger_of(opened.path, file, executable);
    }
    return opened;
}

/// Returns the file that the loader takes for a library's name; empty if it finds none. The library
/// stays loaded.
std::string path_of_library(const std::string& name) {
    void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    link_map* loaded = nullptr;
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &loaded) != 0) return "";
    return loaded->l_name;
}

/// Returns the backend's libraries that the executable does not need itself.
std::vector<CudaLibrary> libraries_of(const BackendFile& backend) {
    std::vector<CudaLibrary> libraries;
    if (!backend.problem.empty()) return libraries;
    const std::vector<std::string> here = needed_libraries("/proc/self/exe");
    for (const std::string& name : needed_libraries(backend.opened_path())) {
        // The loader would take a name with a slash from the current folder.
        const bool is_name = name.starts_with("lib") && name.find('/') == std::string::npos;
        if (is_name && std::find(here.begin(), here.end(), name) == here.end())
            libraries.push_back({name, path_of_library(name)});
    }
    return libraries;
}

/// Explains why a backend could not be loaded; `why` is the loader's message.
std::string problem_with(const BackendFile& backend, std::string why) {
    std::vector<std::string> missing;
    for (const CudaLibrary& l : libraries_of(backend))
        if (l.path.empty()) missing.push_back(l.name);
    if (const std::string opened = backend.opened_path(); why.starts_with(opened))
        why.replace(0, opened.size(), backend.path.string());
    if (missing.empty())
        return "the CUDA backend cannot be loaded: " + why + "; build convoy again on a machine like this";
    return list_of(missing, " and ") + (missing.size() == 1 ? " is" : " are") +
           " not to be found on this machine; load the modules of CUDA, cuDNN and NCCL, or name the folder in "
           "LD_LIBRARY_PATH";
}

Opened load_backend() {
    BackendFile file = open_file();
    if (!file.problem.empty()) return {.problem = file.problem};
    // The library is never closed, because objects that it created live as long as the process. The
    // file stays open too, because the loader knows the library by its descriptor's number.
    void* library = dlopen(file.opened_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return {.problem = problem_with(file, dlerror())};
    file.file.release();
    const auto* backend = static_cast<const CudaEntry*>(dlsym(library, "convoy_cuda"));
    const std::string theirs = backend ? backend->commit : "unknown";
    if (theirs != commit())
        return {.problem = file.path.string() + " is of another build (" + theirs + ") than this executable (" +
                           commit() + "); copy both from one folder"};
    return {.backend = backend};
}

const Opened& open_backend() {
    static const Opened opened = load_backend();
    return opened;
}

}  // namespace

std::string cuda_unloadable() { return open_backend().problem; }

std::string cuda_unavailable() {
    const Opened& opened = open_backend();
    return opened.backend ? opened.backend->unavailable() : opened.problem;
}

Versions cuda_versions() {
    const Opened& opened = open_backend();
    return opened.backend ? opened.backend->versions() : Versions();
}

std::vector<CudaLibrary> cuda_libraries() {
    const BackendFile backend = open_file();
    std::vector<CudaLibrary> libraries = libraries_of(backend);
    libraries.insert(libraries.begin(), {file_name, is_there(backend.path) ? backend.path.string() : ""});
    return libraries;
}

std::string plan_table(const Graph& graph, const StepSpec& step, const std::string& chip) {
    const Opened& opened = open_backend();
    if (!opened.backend) fail(Exit::usage, "--plans: " + opened.problem);
    return opened.backend->plan_table(graph, step, chip);
}

int first_capability() {
    const Opened& opened = open_backend();
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
