#include "base/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace convoy {

void raise_file_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // if this fails, the old limit stays; files_to_keep_open() reads it
}

size_t files_to_keep_open() {
    constexpr size_t most = 128;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    return std::clamp<size_t>(size_t(std::min<rlim_t>(limit.rlim_cur, 8 * most)) / 8, 1, most);
}

}  // namespace convoy
