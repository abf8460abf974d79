#include "base/memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace convoy {

size_t available_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) << 10;
    return std::numeric_limits<size_t>::max();
}

}  // namespace convoy
