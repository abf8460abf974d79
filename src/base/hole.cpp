#include "base/hole.h"

#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace convoy {
namespace {

/// Returns the stored bytes, or some number of at least `enough`.
int64_t stored_bytes(int fd, int64_t size, int64_t enough) {
    int64_t stored = 0;
    for (off_t end = 0; end < size && stored < enough;) {
        const off_t begin = ::lseek(fd, end, SEEK_DATA);
        if (begin < 0 && errno == ENXIO) break;  // there are no more data
        if (begin < 0) return enough;            // nothing is known
        end = ::lseek(fd, begin, SEEK_HOLE);
        if (end <= begin) return enough;
        stored += end - begin;
    }
    return stored;
}

}  // namespace

void check_is_no_hole(int fd, int64_t size, const std::string& path) {
    constexpr int64_t large = 16 << 20, least_share = 10;
    if (size < large) return;
    const int64_t enough = size / least_share, stored = stored_bytes(fd, size, enough);
    if (::lseek(fd, 0, SEEK_SET) == 0 && stored < enough)
        fail(Exit::bad_input, path + ": nearly all of its " + std::to_string(size) + " bytes are a hole; get it again");
}

}  // namespace convoy
