// Ends the job if a rank stays in one operation for too long. MPI itself would wait forever for a
// stopped process or a dead link. Every rank that still runs reports its operation; the message
// names the other ranks.
#pragma once
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/held_folder.h"
#include "comm/comm.h"

namespace convoy {

class Watchdog {
public:
    /// Starts to watch this rank, in a separate thread; `limit_seconds` 0: does not watch.
    /// After a tenth of the limit, or 30 s if that is less, rank 0 prints a warning on stderr.
    Watchdog(Comm&, double limit_seconds);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;

    /// Sets the folder for the ranks' reports: RUN/stalled. It is created when it is needed.
    void report_to(const std::string& folder);
    /// Opens the run folder, which must exist by now. Reports then go into this folder, even if
    /// another one gets its path later. A host that has no such folder uses the path.
    void hold_reports();

private:
    void watch();
    [[noreturn]] void end();

    Comm& comm_;
    double limit_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::string folder_;
    std::optional<HeldFolder> held_;  // the folder above folder_
    std::thread thread_;
};

}  // namespace convoy
