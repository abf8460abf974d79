#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace convoy {

void open_standard_streams() {
    // open() returns the lowest free number: that of the stream, because all below it are open.
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
        if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

}  // namespace convoy
