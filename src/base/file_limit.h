// The number of files that this process may have open at once.
#pragma once
#include <cstddef>

namespace convoy {

/// Raises the soft limit of open files (ulimit -Sn) to the hard one. Call it after MPI has started:
/// programs that MPI starts may close every descriptor up to the soft limit, one by one.
void raise_file_limit();

/// Returns how many files of a data set one reader keeps open: an eighth of the soft limit, 1 to
/// 128. The reader closes these again when it needs others.
size_t files_to_keep_open();

}  // namespace convoy
