// The terminal's output: whole lines, and a status line below them that changes. Something is
// printed at least every five seconds.
#pragma once
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "cli/log_file.h"
#include "comm/activity.h"

namespace convoy {

/// A stream that people watch, shared by threads. On a terminal a status is replaced by what comes
/// next; in a file it is a line. Texts may hold what files say: it is shown by printable().
class Terminal {
public:
    /// `shown` false: everything is dropped, as on ranks other than 0.
    Terminal(std::FILE* to, bool shown);
    ~Terminal() { close(); }
    Terminal(const Terminal&) = delete;

    /// Lines and statuses go to the end of this file, too, shown or not. Throws as LogFile.
    void log_to(const std::string& path);
    /// `kept`: as of printable().
    void line(const std::string& text, std::string_view kept = "");
    /// A line that another rank's log has: not for this one's.
    void relay(const std::string& text);
    void status(const std::string& text);
    /// A line on stderr.
    void warning(const std::string& text);
    double silent_seconds() const;  ///< since the last of these; 0 where nothing is shown
    /// Removes the status line, because other code writes next.
    void clear();
    /// clear(), and from now on nothing is shown.
    void close();

private:
    void clear_status();
    void show(const std::string& line);
    void log(const std::string& line);

    std::FILE* to_;
    bool shown_;
    const bool replaces_;
    mutable std::mutex mutex_;
    bool status_ = false;  // one is shown, and the cursor is at its end
    Clock::time_point said_ = Clock::now();
    std::unique_ptr<LogFile> log_;
};

/// "training: step 3 of 10, 0m36s so far, about 1m24s left"; what is not counted says the
/// operation.
std::string text_of(const Progress&, const char* operation, double seconds_in_phase);

/// Shows the progress of an activity whenever nothing else was said for so long.
class Heartbeat {
public:
    Heartbeat(const Activity&, Terminal&, double every_seconds = 5);
    ~Heartbeat();
    Heartbeat(const Heartbeat&) = delete;

private:
    void watch(double every_seconds);

    const Activity& activity_;
    Terminal& terminal_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::thread thread_;
};

}  // namespace convoy
