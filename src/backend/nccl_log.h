// What NCCL says of itself while it connects, kept in memory: it has no call that tells.
#pragma once
#include <string>

namespace convoy {

/// Has NCCL print at NCCL_DEBUG=INFO, into a file without a name. Sets environment variables, and
/// so does nothing once there are threads, which may read them: for the first lines of main. Does
/// nothing either if the user has set NCCL_DEBUG or NCCL_DEBUG_FILE: NCCL prints where they say.
void keep_nccl_log();
/// What NCCL has printed there.
std::string nccl_log();

}  // namespace convoy
