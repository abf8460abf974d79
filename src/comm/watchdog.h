// Ends the job if a rank is in one operation for too long: MPI itself waits for ever for a stopped
// process or a dead link. Every rank that can still speak says what it waits in; the others are
// named.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "comm/comm.h"

namespace convoy {

class Watchdog {
public:
    /// Watches this rank from now on; `limit_seconds` 0: never. Says so on stderr once a tenth of
    /// the limit has passed.
    Watchdog(Comm&, double limit_seconds);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;

    /// Where ranks leave their reports for one another: RUN/stalled, which is made when it is
    /// needed.
    void report_to(const std::string& folder);

private:
    void watch();
    [[noreturn]] void end(const std::string& folder);

    Comm& comm_;
    double limit_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::string folder_;
    std::thread thread_;
};

}  // namespace convoy
