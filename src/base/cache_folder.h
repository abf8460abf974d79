// Where a user's programs keep what can be made again.
#pragma once
#include <string>

namespace convoy {

/// $XDG_CACHE_HOME/convoy or ~/.cache/convoy; empty if the environment names neither.
std::string cache_folder();

/// Whether this can be a cache: a regular file of at most 16 MiB. A pipe would never end.
bool is_cache_file(int fd);
// Return the whole text of a cache; empty if it is none or cannot be read. Neither waits.
std::string text_of_cache(int fd);
std::string text_of_cache(const std::string& path);

}  // namespace convoy
