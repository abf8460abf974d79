// Signals that ask for a checkpoint and an orderly end: SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP
// and SIGXCPU. A second SIGINT ends the process at once.
#pragma once
#include <string>

#include "backend/backend.h"

namespace convoy {

/// From now on these signals set `requests.stop`, but SIGHUP does nothing if the process was
/// started with it ignored (nohup). A stdout that lost its reader does not end the process.
/// Call once; `requests` must live as long as the process.
void stop_on_signals(Requests& requests);
/// Whether a SIGCONT came since the last call.
bool take_continued();
/// Name of the first signal that came after which a SIGKILL may follow (SIGTERM, SIGHUP, SIGXCPU),
/// or null.
const char* ending_signal();
/// Name of the first signal that came ("SIGUSR1"), or null.
const char* signal_received();
/// The same for people: also says where it probably came from. Empty if none came.
std::string words_of_signal();

}  // namespace convoy
