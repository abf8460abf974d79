#include "cli/time_limit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "base/control_groups.h"
#include "base/error.h"
#include "base/text.h"

namespace convoy {
namespace {

Clock::time_point in_seconds(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

/// Returns this process's job by Slurm's control groups ("/slurm/uid_0/job_7/step_0"). Empty if
/// they do not show it, for example without cgroups or in a container.
std::string job_of_groups(const std::string& root) {
    const std::string key = "/job_";
    for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
        const size_t at = line.find(key);
        if (at == std::string::npos || line.find("slurm") == std::string::npos) continue;
        const size_t first = at + key.size(), end = line.find_first_not_of("0123456789", first);
        if (end != first && (end == std::string::npos || line[end] == '/')) return line.substr(first, end - first);
    }
    return "";
}

}  // namespace

TimeLimit time_limit_of(double option, const std::string& root) {
    TimeLimit limit;
    if (option > 0) {
        limit.deadline = in_seconds(option);
        return limit;
    }
    const std::string text = variable("SLURM_JOB_END_TIME");  // seconds since 1970
    if (text.empty()) return limit;
    const std::string said = "SLURM_JOB_END_TIME=" + text;
    char* end = nullptr;
    const double time = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end || !std::isfinite(time))
        fail(Exit::usage, said + " is not a time in seconds since 1970; give --time-limit, or unset it");
    const double left = time - double(std::time(nullptr));
    const std::string job = variable("SLURM_JOB_ID"), mine = job_of_groups(root);
    const std::string advice = "; it is not obeyed: unset it, or give --time-limit";
    if (left <= 0) {
        limit.warning = said + " is past, so its job has probably ended" + advice;
    } else if (!job.empty() && !mine.empty() && job != mine) {
        limit.warning = said + " is of Slurm job " + job + ", and this process runs in job " + mine + advice;
    } else {
        limit.deadline = in_seconds(std::min(left, longest_duration));
        limit.name = "the time limit (SLURM_JOB_END_TIME)";
        limit.note = "checkpoints and stops in " + duration_text(std::min(left, longest_duration)) + ", before " +
                     said + (job.empty() ? "" : " of job " + job) + "; --time-limit sets another end";
    }
    return limit;
}

}  // namespace convoy
