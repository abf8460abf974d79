// Records on disk which cuDNN engine is being timed. If an engine crashes or hangs the program, the
// next start leaves it out.
#pragma once
#include <set>
#include <string>
#include <utility>

namespace convoy::cuda {

/// The file `PATH.trying-HOST-PID` beside the cache of plans holds the key and the engine of the
/// current trial. Its process keeps it locked. If such a file of this host is not locked but names
/// an engine, its process ended in that trial.
class TrialLog {
public:
    /// Reads the files that earlier processes left. If `path` is empty, reads and writes nothing.
    explicit TrialLog(const std::string& path);
    ~TrialLog();
    TrialLog(const TrialLog&) = delete;
    TrialLog& operator=(const TrialLog&) = delete;

    /// Returns true if a process ended during this trial.
    bool ended_one(const std::string& key, const std::string& engine) const { return ended_.contains({key, engine}); }
    /// Returns a line for each engine to leave out, with the file that records it.
    const std::set<std::string>& notes() const { return notes_; }
    /// Records the beginning of a trial. Errors are ignored, because the file is only a precaution.
    void begin(const std::string& key, const std::string& engine);
    /// Records the end of the trial. Without this call the destructor leaves the file behind.
    void end();

private:
    void read(const std::string& path);

    std::string own_;  // path of this process's file; empty: no file
    int file_ = -1;
    bool trying_ = false;
    std::set<std::pair<std::string, std::string>> ended_;
    std::set<std::string> notes_;
};

}  // namespace convoy::cuda
