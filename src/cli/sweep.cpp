// convoy sweep: trains once for each combination of some options' values, one after the other, and
// compares the runs. Each training is a separate process, so that one that fails does not end
// the others.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>

#include "base/own_folder.h"
#include "base/project.h"
#include "base/shell_word.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/sweep_spec.h"
#include "cli/train_options.h"
#include "report/summary.h"
#include "run/run_folder.h"

namespace convoy {
namespace {

/// Returns the trainings to start. Makes a new folder if the user names none. Never uses a folder
/// that is there under the default name, because another user may have guessed it.
SweepSpec plan_to_start(const std::vector<std::string>& args) {
    const std::string folder = default_run_folder("sweep");
    SweepSpec spec = parse_sweep(args, folder);
    for (const SweepRun& run : spec.runs)  // a link in a received folder may lead to any run of the user
        if (std::error_code unseen; std::filesystem::is_symlink(spec.output + "/" + run.name, unseen))
            fail(Exit::io, spec.output + "/" + run.name + ": is a link, which a sweep does not follow; remove it");
    if (std::error_code unseen; spec.trains && std::filesystem::is_directory(spec.output, unseen)) {
        const HeldFolder runs(spec.output, HeldFolder::IfLink::follow_own);  // throws for another user's link
        if (std::filesystem::is_symlink(spec.output, unseen))
            std::printf("output    %s: is a link: the runs are written in %s\n", printable(spec.output).c_str(),
                        printable(runs.real_path()).c_str());
    }
    if (spec.output != folder || !spec.trains) return spec;
    const std::string made = make_run_folder(folder);
    return made == folder ? spec : parse_sweep(args, made);
}

/// Throws Exit::usage on a rank of a launcher, because mpirun cannot start trainings there.
void check_no_ranks() {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
        if (std::getenv(variable))
            fail(Exit::usage,
                 "sweep starts trainings by itself: start it without a launcher, and with --ranks N for "
                 "trainings on N ranks");
}

/// Returns true if mpirun may start ranks on other hosts: those of a job, or of a list of hosts.
bool may_use_other_hosts() {
    constexpr const char* settings[] = {"SLURM_JOB_ID",
                                        "PBS_NODEFILE",
                                        "PE_HOSTFILE",
                                        "LSB_DJOB_HOSTFILE",
                                        "OMPI_MCA_orte_default_hostfile",
                                        "PRTE_MCA_prte_default_hostfile"};
    return std::any_of(std::begin(settings), std::end(settings), [](const char* name) { return std::getenv(name); });
}

/// Returns a path in /proc to the running file, because another user may replace the file at the
/// executable's path. `by_mpirun`: mpirun will start it. If that may be on other hosts, where this
/// path in /proc is missing, returns the executable's path, unless it now leads to another file.
std::string running_file(bool by_mpirun) {
    constexpr const char* itself = "/proc/self/exe";
    std::string by_number = "/proc/" + std::to_string(::getpid()) + "/exe";
    if (!by_mpirun) return itself;
    if (!may_use_other_hosts()) return by_number;
    std::error_code unseen;
    const std::filesystem::path program = std::filesystem::read_symlink(itself, unseen);
    if (std::filesystem::equivalent(program, itself, unseen)) return program.string();
    return by_number;
}

/// Returns the words of a training's command. mpirun is not named by its path: it would then start
/// its daemons with an LD_LIBRARY_PATH that has an empty entry, which is the current folder.
std::vector<std::string> command_of(const SweepSpec& spec, const SweepRun& run) {
    std::vector<std::string> words;
    if (spec.ranks > 0) words = {"mpirun", "-np", std::to_string(spec.ranks)};
    words.push_back(running_file(spec.ranks > 0));
    words.emplace_back("train");
    words.insert(words.end(), run.args.begin(), run.args.end());
    return words;
}

std::string words_of(int code) {
    switch (code) {
        case int(Exit::usage): return "usage";
        case int(Exit::bad_input): return "bad input";
        case int(Exit::not_finite): return "loss not finite";
        case int(Exit::io): return "cannot write";
        case int(Exit::comm): return "communication failed";
        case int(Exit::out_of_memory): return "not enough memory";
        case 127: return "could not be started; it needs /proc, and with --ranks mpirun in PATH";
        default: return code > 128 ? std::string(strsignal(code - 128)) : "see above";
    }
}

/// Returns the command to repeat: "build/convoy sweep lr=0.1,0.2 --data DIR --output FOLDER".
std::string again(const SweepSpec& spec) {
    std::string text = shell_word(own_command()) + " sweep";
    for (const std::string& word : spec.args) text += " " + shell_word(word);
    return text + " --output " + shell_word(spec.output);
}

/// A folder for mpirun's files while trainings run. Otherwise mpirun would use a folder in /tmp
/// with a predictable name, which another user could have made. If mpirun may start daemons on
/// other hosts, they use the same path there. The folder is in the user's home then, where no other
/// user can make it first, and it stays there. (OpenMPI 4.1 also has settings for a local and a
/// remote path. Its ranks refuse them.)
class MpirunFolder {
public:
    explicit MpirunFolder(bool wanted) {
        if (!wanted || std::getenv("OMPI_MCA_orte_tmpdir_base") || std::getenv("PRTE_MCA_prte_tmpdir_base")) return;
        removed_ = !may_use_other_hosts();
        const std::string path = removed_ ? make_here() : make_for_all_hosts();
        for (const char* setting : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"})
            setenv(setting, path.c_str(), 0);
    }
    ~MpirunFolder() {
        const std::error_code error = removed_ ? folder_->remove() : std::error_code();
        if (error)
            std::fprintf(stderr, "warning: %s cannot be removed: %s\n", folder_->path().c_str(),
                         error.message().c_str());
    }
    MpirunFolder(const MpirunFolder&) = delete;
    MpirunFolder& operator=(const MpirunFolder&) = delete;

private:
    std::string make_here() {
        folder_ = OwnFolder::unique("/tmp/convoy-sweep-", "start again");
        return folder_->path();
    }
    /// Returns the path without links, because other users may be able to exchange these.
    std::string make_for_all_hosts() {
        const std::string advice = "; set OMPI_MCA_orte_tmpdir_base to a folder that only you may write";
        const char* home = std::getenv("HOME");
        if (!home || *home != '/')
            fail(Exit::usage,
                 "mpirun may start ranks on other hosts, and HOME names no folder for its files there" + advice);
        folder_ = OwnFolder::make_or_take(std::string(home) + "/.cache/convoy/mpirun", advice.substr(2));
        std::string path = folder_->held().real_path();
        if (!path.starts_with(std::filesystem::canonical(home).string() + "/"))
            fail(Exit::usage, "mpirun's files would be in " + path + ", which is not in HOME on all hosts" + advice);
        if (const auto unsafe = unsafe_folder(path, S_IWOTH))
            fail(Exit::usage,
                 "mpirun's files would be in " + path + ", but " + unsafe->first + " " + unsafe->second + advice);
        return path;
    }

    std::optional<OwnFolder> folder_;
    bool removed_ = false;  // at the end
};

struct Outcome {
    std::vector<std::string> done;  ///< run folders of finished trainings
    std::vector<std::string> failed;
    int first_failure = 0;  ///< exit code of the first training that failed
    int stopped = 0;        ///< exit code of a sweep that was stopped; 0: it was not
};

/// Returns the sweep's exit code if it must stop: after a signal, or after a training that was told
/// to stop. Otherwise returns 0.
int stopped_with(int code, int signal) {
    constexpr int interrupted = 128 + SIGINT;
    if (signal != 0) return signal == SIGINT ? interrupted : int(Exit::requeue);
    return code == interrupted || code == int(Exit::requeue) ? code : 0;
}

Outcome train_all(const SweepSpec& spec, ChildSignals& signals) {
    Outcome outcome;
    const std::string mpirun = program("mpirun");
    if (spec.ranks > 0 && mpirun.empty())
        fail(Exit::usage, "mpirun is in no folder of PATH that begins with /; load your cluster's module of MPI");
    for (size_t i = 0; i < spec.runs.size(); ++i) {
        const SweepRun& run = spec.runs[i];
        std::printf("sweep     %zu of %zu: %s\n", i + 1, spec.runs.size(), printable(run.name).c_str());
        std::fflush(stdout);
        const std::string folder = spec.output + "/" + run.name;
        const int code = signals.run(command_of(spec, run), -1, spec.ranks > 0 ? mpirun : "");
        if (code == 0) outcome.done.push_back(folder);
        outcome.stopped = stopped_with(code, signals.received());
        if (outcome.stopped != 0) break;
        if (code == 0) continue;
        if (outcome.first_failure == 0) outcome.first_failure = code;
        outcome.failed.push_back(formatted("%s: exit %d, ", folder.c_str(), code) + words_of(code));
    }
    return outcome;
}

}  // namespace

int sweep(const std::vector<std::string>& args) {
    check_no_ranks();
    const SweepSpec spec = plan_to_start(args);
    ChildSignals signals;
    const MpirunFolder files_of_mpirun(spec.ranks > 0);
    const Outcome outcome = train_all(spec, signals);
    std::vector<RunSummary> runs;
    if (spec.trains)
        for (const std::string& folder : outcome.done) runs.push_back(summarise(folder));
    compare(runs, default_options());
    if (!runs.empty()) std::printf("\n%s", comparison_text(runs).c_str());
    for (const std::string& line : outcome.failed) std::printf("failed: %s\n", printable(line).c_str());
    std::fflush(stdout);
    if (outcome.stopped == 0 && outcome.failed.empty()) return int(Exit::done);
    const char* what = outcome.stopped == 0 ? "the same command tries the others again" : "continue";
    std::fprintf(stderr, "sweep: %zu of %zu trainings are done; %s: %s\n", outcome.done.size(), spec.runs.size(), what,
                 printable(again(spec)).c_str());
    return outcome.stopped != 0 ? outcome.stopped : outcome.first_failure;
}

}  // namespace convoy
