// The user's cache folder, for files that can be computed again.
#pragma once
#include <string>

namespace convoy {

/// Returns $XDG_CACHE_HOME/convoy or ~/.cache/convoy; empty if the environment names neither.
std::string cache_folder();

/// Returns true for a regular file of at most 16 MiB. Other files are refused, because reading a
/// pipe might never end.
bool is_cache_file(int fd);
/// Returns the whole text of a cache file; empty if is_cache_file() is false or it cannot be read.
/// Never blocks.
std::string text_of_cache(int fd);
std::string text_of_cache(const std::string& path);

}  // namespace convoy
