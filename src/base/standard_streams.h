// stdin, stdout and stderr that the shell left closed (`convoy train >&-`).
#pragma once

namespace convoy {

/// Opens /dev/null for each of descriptors 0 to 2 that is closed. Else the next file that is opened
/// gets its number, and what is printed is written into that file. For the first line of main.
void open_standard_streams();

}  // namespace convoy
