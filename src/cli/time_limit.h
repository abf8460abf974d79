// The deadline of a training: --time-limit, or the end of its Slurm job.
#pragma once
#include <optional>
#include <string>

#include "base/clock.h"

namespace convoy {

struct TimeLimit {
    std::optional<Clock::time_point> deadline{};
    std::string name = "the time limit";  ///< for "stopped by …"
    std::string note{};                   ///< when and why, if the user did not ask for it; or empty
    std::string warning{};                ///< why the end that the environment gives is not obeyed; or empty
};

/// `option`: --time-limit in seconds, which wins over the environment; 0: not given.
/// SLURM_JOB_END_TIME is not obeyed if it is past, or of another job than that of this process: a
/// shell may have kept it from an earlier job (tmux, JupyterHub). `root` stands before /proc, for
/// tests. Throws Exit::usage if the variable is no time.
TimeLimit time_limit_of(double option, const std::string& root = "");

}  // namespace convoy
