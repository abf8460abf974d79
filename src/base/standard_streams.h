// Handles stdin, stdout and stderr that the shell left closed (`convoy train >&-`).
#pragma once

namespace convoy {

/// Opens /dev/null for each closed descriptor from 0 to 2. Otherwise the next file that is opened
/// gets that number and receives the output. Call it first in main.
void open_standard_streams();

}  // namespace convoy
