#include "comm/watchdog.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "base/nearest_name.h"
#include "comm/stall_reports.h"

namespace convoy {
namespace {

constexpr double longest_warning = 30;  // seconds

std::string where(const Activity& a) {
    std::ostringstream text;
    text << "in '" << a.operation() << "' for " << std::llround(a.seconds()) << " s, after step " << a.step();
    return text.str();
}

std::string parent_of(const std::string& process) {
    std::ifstream file("/proc/" + process + "/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("PPid:\t")) return line.substr(6);
    return "0";
}

/// Ends OpenMPI's launcher on this host if it still runs in ten seconds. If a link is dead, mpirun
/// and its daemon on the other host wait for each other, although all ranks have ended. OpenMPI 5
/// waits even after a SIGTERM. A separate process does this, because the launcher ends this one.
void end_launcher_later() {
    const std::set<std::string> launchers = {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"};
    std::string launcher = std::to_string(getppid()), name;
    for (int level = 0; level < 4 && !launchers.count(name); ++level) {  // a shell or two may be in between
        if (level > 0) launcher = parent_of(launcher);
        std::ifstream file("/proc/" + launcher + "/comm");
        std::getline(file, name);
    }
    if (!launchers.count(name)) return;
    const std::string there = "[ \"$(cat /proc/" + launcher + "/comm)\" = " + name + " ]";
    const std::string script =
        "sleep 10; " + there + " && kill -TERM " + launcher + " && sleep 5 && " + there + " && kill -KILL " + launcher;
    posix_spawnattr_t apart;
    posix_spawnattr_init(&apart);
    posix_spawnattr_setflags(&apart, POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    for (int fd : {0, 1, 2}) posix_spawn_file_actions_addopen(&silent, fd, "/dev/null", O_RDWR, 0);
    const char* words[] = {"sh", "-c", script.c_str(), nullptr};
    pid_t child = 0;
    posix_spawn(&child, "/bin/sh", &silent, &apart, const_cast<char**>(words), environ);
}

/// Returns "rank 1", or "ranks 1, 4 and 5".
std::string named(const std::vector<int>& ranks) {
    std::vector<std::string> numbers;
    for (const int rank : ranks) numbers.push_back(std::to_string(rank));
    return (ranks.size() == 1 ? "rank " : "ranks ") + list_of(numbers, " and ");
}

}  // namespace

Watchdog::Watchdog(Comm& comm, double limit_seconds) : comm_(comm), limit_(limit_seconds) {
    if (limit_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Watchdog::report_to(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    folder_ = folder;
    held_.reset();
}

void Watchdog::hold_reports() {
    const std::lock_guard lock(mutex_);
    try {
        held_.emplace(std::filesystem::path(folder_).parent_path(), HeldFolder::IfLink::follow_own);
    } catch (const Error&) {  // the folder is on another host
    }
}

void Watchdog::watch() {
    const double warning = std::min(longest_warning, limit_ / 10);
    bool warned = false;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(200), [this] { return done_; })) {
        const double seconds = comm_.activity().seconds();
        if (seconds >= limit_) end();
        if (seconds < warning) warned = false;
        if (seconds >= warning && !warned && comm_.root()) {
            warned = true;
            std::fprintf(stderr, "warning: rank 0 is %s; the job ends when that takes %g s (--watchdog)\n",
                         where(comm_.activity()).c_str(), limit_);
        }
    }
}

void Watchdog::end() {
    const std::string mine =
        "rank " + std::to_string(comm_.rank()) + " on " + comm_.host() + " is " + where(comm_.activity());
    end_launcher_later();
    // MPI itself may be stuck, so this process ends in any case; its launcher then ends the others.
    std::thread([] {
        std::this_thread::sleep_for(std::chrono::seconds(6));
        _exit(int(Exit::comm));
    }).detach();
    std::ostringstream message;
    message << "no progress for " << limit_ << " s (--watchdog): ";
    if (folder_.empty()) comm_.abort(Exit::comm, message.str() + mine);
    // If the link is dead, ranks can communicate through files only. Each writes its report, and
    // the lowest rank that did so prints the message for all.
    const StallReports all =
        held_ ? StallReports(*held_, std::filesystem::path(folder_).filename()) : StallReports(folder_);
    if (!all.usable()) comm_.abort(Exit::comm, message.str() + mine);
    all.write(comm_.rank(), mine);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    std::vector<int> silent;
    std::vector<std::string> reports;
    for (int r = 0; r < comm_.size(); ++r) {
        if (std::string line = all.read(r); !line.empty()) {
            // a lower rank has reported: wait until it aborts the job
            if (reports.empty() && r < comm_.rank()) std::this_thread::sleep_for(std::chrono::hours(1));
            reports.push_back(std::move(line));
        } else {
            silent.push_back(r);
        }
    }
    for (const std::string& report : reports)
        std::fprintf(stderr, "convoy: no progress: %s\n", printable(report).c_str());
    message << (silent.empty()
                    ? "every rank reports, so a link between hosts is dead or one rank waits for a disk"
                    : named(silent) +
                          " did not report: stopped, cut off, or on a host that does not share the run folder")
            << "; the operation of each rank is in " << folder_;
    comm_.abort(Exit::comm, message.str());
}

}  // namespace convoy
