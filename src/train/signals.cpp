#include "train/signals.h"

#include <unistd.h>
#include <csignal>

namespace convoy {
namespace {

// A signal handler can reach nothing else.
Requests* flags = nullptr;
volatile std::sig_atomic_t received = 0, terminated = 0, continued = 0;

void on_signal(int signal) {
    if (received == SIGINT && signal == SIGINT) _exit(128 + SIGINT);
    if (received == 0) received = signal;
    if (signal == SIGTERM) terminated = 1;
    flags->stop = 1;
}

void on_continue(int) { continued = 1; }

}  // namespace

void stop_on_signals(Requests& requests) {
    flags = &requests;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // a write of metrics or of a checkpoint goes on
    for (int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
    action.sa_handler = on_continue;
    sigaction(SIGCONT, &action, nullptr);
}

bool take_continued() {
    const bool came = continued != 0;
    if (came) continued = 0;
    return came;
}

bool was_terminated() { return terminated != 0; }

const char* signal_received() {
    switch (received) {
        case SIGUSR1: return "SIGUSR1";
        case SIGTERM: return "SIGTERM";
        case SIGINT: return "SIGINT";
        default: return nullptr;
    }
}

}  // namespace convoy
