#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace convoy {

void open_standard_streams() {
    // open() takes the lowest number that is free: that of the stream, since all below it are open.
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
        if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

}  // namespace convoy
