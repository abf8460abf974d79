// The deadline of a training: --time-limit, or the end of its Slurm job.
#pragma once
#include <optional>
#include <string>

#include "base/clock.h"

namespace convoy {

struct TimeLimit {
    std::optional<Clock::time_point> deadline{};
    std::string name = "the time limit";  ///< for "stopped by …"
    std::string note{};                   ///< says when the training stops, if the environment sets that; else empty
    std::string warning{};                ///< says why SLURM_JOB_END_TIME is ignored; else empty
};

/// Returns the limit. `option` is --time-limit in seconds, which wins over the environment; 0: not
/// given. SLURM_JOB_END_TIME is ignored if it is past, or if it belongs to another job than this
/// process. A shell may have kept it from an earlier job (tmux, JupyterHub). `root` is put before
/// /proc, for tests. Throws Exit::usage if the variable is not a time.
TimeLimit time_limit_of(double option, const std::string& root = "");

}  // namespace convoy
