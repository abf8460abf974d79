// Signals that ask for a checkpoint and an orderly end: SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP
// and SIGXCPU. A second SIGINT ends the process at once.
#pragma once
#include <string>

#include "backend/backend.h"

namespace convoy {

/// Installs handlers in which these signals set `requests.stop`. SIGHUP does nothing if the process
/// was started with it ignored (nohup). Also ignores SIGPIPE, so that a closed stdout does not end
/// the process. Call once; `requests` must live as long as the process.
void stop_on_signals(Requests& requests);
/// Returns true if a SIGCONT came since the last call.
bool take_continued();
/// Returns the name of the first signal after which a SIGKILL may follow (SIGTERM, SIGHUP,
/// SIGXCPU); null if none came.
const char* ending_signal();
/// Returns the name of the first of the six signals that came ("SIGUSR1"); null: none.
const char* signal_received();
/// Returns a text for people: the first signal that came, and its probable sender. Empty if none
/// came.
std::string words_of_signal();

}  // namespace convoy
