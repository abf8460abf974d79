// The terminal's output: whole lines, and a status line below them that changes. Heartbeat makes
// sure that something is printed at least every few seconds.
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

/// A stream that people read; threads share it. On a terminal, the next output replaces a status;
/// in a file, a status is a line. Texts may contain data from files, so they are printed by
/// printable().
class Terminal {
public:
    /// `shown` false: nothing is printed, as on ranks other than 0.
    Terminal(std::FILE* to, bool shown);
    ~Terminal() { close(); }
    Terminal(const Terminal&) = delete;

    /// Also appends lines and statuses to this file, even if `shown` is false. Throws what LogFile
    /// throws.
    void log_to(const std::string& path);
    /// Prints a line. `kept`: see printable().
    void line(const std::string& text, std::string_view kept = "");
    /// Prints a line that is in another rank's log, so it is not added to this rank's log.
    void relay(const std::string& text);
    void status(const std::string& text);
    /// Prints a line on stderr.
    void warning(const std::string& text);
    bool replaces() const { return replaces_; }  ///< false: a status is a line
    double silent_seconds() const;               ///< since the last output; 0 if nothing is shown
    /// Removes the status line, because other code writes next.
    void clear();
    /// Removes the status line, and prints nothing from then on.
    void close();

private:
    void clear_status();
    void show(const std::string& line);
    void log(const std::string& line);

    std::FILE* to_;
    bool shown_;
    const bool replaces_;
    mutable std::mutex mutex_;
    bool status_ = false;  // a status is shown, and the cursor is at its end
    Clock::time_point said_ = Clock::now();
    std::unique_ptr<LogFile> log_;
};

/// Returns "training: step 3 of 10, 0m36s so far, about 1m24s left". If the phase counts nothing,
/// the text names the operation.
std::string text_of(const Progress&, const char* operation, double seconds_in_phase);

/// Prints the progress of an activity when nothing was printed for `every_seconds`.
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
