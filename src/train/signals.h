// SIGUSR1, SIGTERM and SIGINT ask for a checkpoint and an orderly end; a second SIGINT ends the
// process at once.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// From now on these signals set `requests.stop`. Call once; `requests` must live as long as the
/// process.
void stop_on_signals(Requests& requests);
/// Whether a SIGCONT came since the last call.
bool take_continued();
/// Whether a SIGTERM came.
bool was_terminated();
/// Name of the first signal that came ("SIGUSR1"), or null.
const char* signal_received();

}  // namespace convoy
