// Which cuDNN engine is being timed, on disk: an engine that faults or hangs takes the program with
// it, and the next start must not meet it again.
#pragma once
#include <set>
#include <string>
#include <utility>

namespace convoy::cuda {

/// The file `PATH.trying-HOST-PID` beside the cache of plans holds the key and the engine that are
/// being tried. Its process has it locked. A file without a lock that names an engine was left by
/// a process of this host that ended in that trial.
class TrialLog {
public:
    /// Reads what earlier processes left. An empty path: nothing is read or written.
    explicit TrialLog(const std::string& path);
    ~TrialLog();
    TrialLog(const TrialLog&) = delete;
    TrialLog& operator=(const TrialLog&) = delete;

    /// Whether a process ended while it tried this.
    bool ended_one(const std::string& key, const std::string& engine) const { return ended_.contains({key, engine}); }
    /// A line for each engine that is left out, with the file that says so.
    const std::set<std::string>& notes() const { return notes_; }
    /// A trial begins. Errors are ignored, because the file is only a precaution.
    void begin(const std::string& key, const std::string& engine);
    /// The trial is over, whatever came of it. Without this the file stays.
    void end();

private:
    void read(const std::string& path);

    std::string own_;  // path of this process's file; empty: none
    int file_ = -1;
    bool trying_ = false;
    std::set<std::pair<std::string, std::string>> ended_;
    std::set<std::string> notes_;
};

}  // namespace convoy::cuda
