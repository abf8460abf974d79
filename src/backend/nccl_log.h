// Keeps in memory what NCCL prints while it connects. NCCL has no call that returns its transport.
#pragma once
#include <string>

namespace convoy {

/// Makes NCCL print at NCCL_DEBUG=INFO into an unnamed file. Call it in the first lines of main: it
/// sets environment variables, so it does nothing once other threads may read them. It also does
/// nothing if the user has set NCCL_DEBUG or NCCL_DEBUG_FILE, which then decide where NCCL prints.
void keep_nccl_log();
/// Returns what NCCL has printed into that file.
std::string nccl_log();

}  // namespace convoy
