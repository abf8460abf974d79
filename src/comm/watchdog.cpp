#include "comm/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace convoy {
namespace {

namespace fs = std::filesystem;
constexpr double longest_warning = 30;  // seconds

std::string report_of(const std::string& folder, int rank) { return folder + "/rank-" + std::to_string(rank) + ".txt"; }

std::string where(const Activity& a) {
    std::ostringstream text;
    text << "in '" << a.operation() << "' for " << int64_t(a.seconds() + 0.5) << " s, after step " << a.step();
    return text.str();
}

/// "ranks 1, 4 and 5"
std::string list_of(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    return text;
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
}

void Watchdog::watch() {
    const double warning = std::min(longest_warning, limit_ / 10);
    bool warned = false;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(200), [this] { return done_; })) {
        const double seconds = comm_.activity().seconds();
        if (seconds >= limit_) end(folder_);
        if (seconds < warning) warned = false;
        if (seconds >= warning && !warned && comm_.root()) {
            warned = true;
            std::fprintf(stderr, "warning: rank 0 is %s; the job ends when that takes %g s (--watchdog)\n", where(comm_.activity()).c_str(), limit_);
        }
    }
}

void Watchdog::end(const std::string& folder) {
    const std::string mine = where(comm_.activity());
    std::error_code ignored;
    if (!folder.empty()) {
        fs::create_directories(folder, ignored);
        std::ofstream(report_of(folder, comm_.rank())) << mine << "\n";
    }
    std::fprintf(stderr, "convoy: no progress: rank %d on %s is %s\n", comm_.rank(), comm_.host().c_str(), mine.c_str());
    // MPI may be what is stuck: this process ends in any case, and its launcher ends the others.
    std::thread([] {
        std::this_thread::sleep_for(std::chrono::seconds(6));
        _exit(int(Exit::comm));
    }).detach();
    std::this_thread::sleep_for(std::chrono::seconds(2));  // for the reports of the others

    std::vector<int> silent;
    int speaker = comm_.size();  // the lowest rank that can speak, for all
    for (int r = comm_.size() - 1; r >= 0; --r)
        if (!folder.empty() && fs::exists(report_of(folder, r), ignored))
            speaker = r;
        else
            silent.insert(silent.begin(), r);
    if (!folder.empty() && speaker != comm_.rank()) std::this_thread::sleep_for(std::chrono::hours(1));  // until the abort
    const std::string who = folder.empty()   ? "there is no run folder yet to tell which rank is missing"
                            : silent.empty() ? "every rank reports, so a link between hosts is dead or one rank waits for a disk"
                                             : list_of(silent) + " did not report: stopped, cut off, or on a host that does not share the run folder";
    std::ostringstream message;
    message << "no progress for " << limit_ << " s (--watchdog): " << who << "; each rank's last operation is "
            << (folder.empty() ? "above" : "above and in " + folder);
    comm_.abort(Exit::comm, message.str());
}

}  // namespace convoy
