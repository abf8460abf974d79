#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "base/text.h"

namespace convoy {
namespace {

/// Returns true if people watch a stream. Under a launcher this depends on the parent's stream,
/// because mpirun gives its first rank a pseudo-terminal even if its own output goes to a file.
bool watched(std::FILE* stream) {
    const int descriptor = ::fileno(stream);
    if (!::isatty(descriptor)) return false;
    if (!std::getenv("OMPI_COMM_WORLD_SIZE")) return true;
    char target[256] = "";
    const std::string parent = "/proc/" + std::to_string(::getppid()) + "/fd/" + std::to_string(descriptor);
    const ssize_t length = ::readlink(parent.c_str(), target, sizeof target - 1);
    return length > 0 &&
           (std::string_view(target).starts_with("/dev/pts/") || std::string_view(target).starts_with("/dev/tty"));
}

}  // namespace

Terminal::Terminal(std::FILE* to, bool shown) : to_(to), shown_(shown), replaces_(shown && watched(to)) {}

void Terminal::clear_status() {
    if (!std::exchange(status_, false)) return;
    std::fputs("\r\033[K", to_);
    std::fflush(to_);
}

void Terminal::clear() {
    const std::lock_guard lock(mutex_);
    clear_status();
}

void Terminal::close() {
    const std::lock_guard lock(mutex_);
    clear_status();
    shown_ = false;
}

void Terminal::log_to(const std::string& path) {
    const std::lock_guard lock(mutex_);
    log_ = std::make_unique<LogFile>(path);
}

void Terminal::log(const std::string& line) {
    if (!log_ || log_->add(line)) return;
    std::fprintf(stderr, "warning: %s: cannot be written any more; the run continues without it\n",
                 log_->path().c_str());
    log_.reset();
}

void Terminal::show(const std::string& line) {
    if (!shown_) return;
    clear_status();
    std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
    said_ = Clock::now();
}

void Terminal::line(const std::string& text, std::string_view kept) {
    const std::lock_guard lock(mutex_);
    const std::string line = printable(text, kept);
    show(line);
    log(line);
}

void Terminal::relay(const std::string& text) {
    const std::lock_guard lock(mutex_);
    show(printable(text));
}

void Terminal::status(const std::string& text) {
    if (!replaces_) return line(text);
    const std::lock_guard lock(mutex_);
    const std::string line = printable(text);
    log(line);
    if (!shown_) return;
    clear_status();
    std::fputs(line.c_str(), to_);
    std::fflush(to_);
    status_ = true;
    said_ = Clock::now();
}

void Terminal::warning(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const std::string line = "warning: " + printable(text);
    log(line);
    if (!shown_) return;
    clear_status();
    std::fflush(to_);
    std::fprintf(stderr, "%s\n", line.c_str());
}

double Terminal::silent_seconds() const {
    const std::lock_guard lock(mutex_);
    return shown_ ? seconds_since(said_) : 0;
}

std::string text_of(const Progress& p, const char* operation, double seconds) {
    if (p.total <= 0) return formatted("%s: %s, %s so far", p.phase, operation, duration_text(seconds).c_str());
    std::string text =
        formatted("%s: %s %lld of %lld, %s so far", p.phase, p.unit, (long long)std::min(p.done + 1, p.total),
                  (long long)p.total, duration_text(seconds).c_str());
    if (p.done <= p.first) return text;
    const double left = seconds / double(p.done - p.first) * double(p.total - p.done);
    if (p.rated) text += formatted(", %.0f %ss/s", double(p.done - p.first) / seconds, p.unit);
    return text + ", about " + duration_text(left) + " left";
}

Heartbeat::Heartbeat(const Activity& activity, Terminal& terminal, double every_seconds)
    : activity_(activity), terminal_(terminal) {
    thread_ = std::thread([=, this] { watch(every_seconds); });
}

Heartbeat::~Heartbeat() {
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void Heartbeat::watch(double every_seconds) {
    std::unique_lock lock(mutex_);
    const auto look = std::chrono::duration<double>(every_seconds / 20);
    while (!wake_.wait_for(lock, look, [this] { return done_; })) {
        if (terminal_.silent_seconds() < every_seconds - look.count()) continue;
        const Progress p = activity_.progress();
        terminal_.status(text_of(p, activity_.operation(), seconds_since(p.since)));
    }
}

}  // namespace convoy
