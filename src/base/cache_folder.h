// Where a user's programs keep what can be made again.
#pragma once
#include <cstdlib>
#include <string>

namespace convoy {

/// $XDG_CACHE_HOME/convoy or ~/.cache/convoy; empty if the environment names neither.
inline std::string cache_folder() {
    const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
    if (cache && *cache) return std::string(cache) + "/convoy";
    return home && *home ? std::string(home) + "/.cache/convoy" : "";
}

}  // namespace convoy
