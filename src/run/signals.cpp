#include "run/signals.h"

#include <unistd.h>
#include <csignal>

namespace convoy {
namespace {

struct StopSignal {
    int number;
    const char* name;
    bool ends;  ///< a SIGKILL may follow soon after it
};
constexpr StopSignal stop_signals[] = {{SIGUSR1, "SIGUSR1", false}, {SIGUSR2, "SIGUSR2", false},
                                       {SIGINT, "SIGINT", false},   {SIGTERM, "SIGTERM", true},
                                       {SIGHUP, "SIGHUP", true},    {SIGXCPU, "SIGXCPU", true}};

// Global, because a signal handler has no other access.
Requests* flags = nullptr;
volatile std::sig_atomic_t received = 0, ending = 0, continued = 0, continued_once = 0;

const StopSignal* signal_of(int number) {
    for (const StopSignal& s : stop_signals)
        if (s.number == number) return &s;
    return nullptr;
}

const char* name_of(int number) {
    const StopSignal* s = signal_of(number);
    return s ? s->name : nullptr;
}

void on_signal(int signal) {
    if (received == SIGINT && signal == SIGINT) _exit(128 + SIGINT);
    if (received == 0) received = signal;
    if (ending == 0 && signal_of(signal)->ends) ending = signal;
    flags->stop = 1;
}

void on_continue(int) {
    continued = 1;
    continued_once = 1;
}

bool is_ignored(int signal) {
    struct sigaction now{};
    return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Determined before main, because an MPI library may set another handler.
const bool hangups_ignored = is_ignored(SIGHUP);

}  // namespace

/// Unblocks the signals, because a process inherits blocked signals from its parent, for example
/// from some servers.
static void unblock_stop_signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const StopSignal& signal : stop_signals) sigaddset(&all, signal.number);
    pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
}

void stop_on_signals(Requests& requests) {
    flags = &requests;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // a write of metrics or of a checkpoint continues
    for (const StopSignal& s : stop_signals)
        if (s.number != SIGHUP || !hangups_ignored) sigaction(s.number, &action, nullptr);
    action.sa_handler = on_continue;
    sigaction(SIGCONT, &action, nullptr);
    unblock_stop_signals();
    std::signal(SIGPIPE, SIG_IGN);  // writing to a pipe without reader then fails, like to a full disk
}

bool take_continued() {
    const bool came = continued != 0;
    if (came) continued = 0;
    return came;
}

std::string words_of_signal() {
    const char* name = name_of(received);
    if (!name) return "";
    return received == SIGTERM && continued_once != 0 ? "SIGTERM (as mpirun sends it after Ctrl-C)" : name;
}

const char* ending_signal() { return name_of(ending); }

const char* signal_received() { return name_of(received); }

}  // namespace convoy
