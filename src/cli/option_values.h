// Texts of options that are neither a number nor one of a few words, as values. Each takes the
// option's name and its text, and throws Exit::usage.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// Numbers separated by commas; none if the text is empty.
struct NumberList {
    std::string text;  ///< as it was written, for messages
    std::vector<double> values{};
};
NumberList parse_numbers(const std::string& option, const std::string& text);
std::vector<double> parse_milestones(const std::string& option, const std::string& text);
/// As parse_numbers, for divisors: from 1e-6 to 1e6.
NumberList parse_deviations(const std::string& option, const std::string& text);
/// Seconds: of "full" endless, of "quick" none.
double parse_tuning(const std::string& option, const std::string& text);
/// Numbers of devices, from 0.
std::vector<int> parse_devices(const std::string& option, const std::string& text);

/// Where a training goes on; nothing set: it starts anew.
struct ResumeFrom {
    bool newest = false;  ///< at the newest sound checkpoint in the run folder
    std::string file{};   ///< at this checkpoint
};
ResumeFrom parse_resume(const std::string& option, const std::string& text);

/// When checkpoints are taken; at most one is positive.
struct CheckpointClock {
    int64_t steps = 0, epochs = 0;
    double seconds = 0;
};
CheckpointClock parse_checkpoint_clock(const std::string& option, const std::string& text);

// Seconds. 0: no limit, no watchdog.
/// If the text is empty: until SLURM_JOB_END_TIME, if that is set.
double parse_time_limit(const std::string& option, const std::string& text);
double parse_watchdog(const std::string& option, const std::string& text);
double parse_publish_every(const std::string& option, const std::string& text);

/// --lr: a rate; nothing for auto, which is global batch / 1000.
std::optional<double> parse_rate(const std::string& option, const std::string& text);
/// --lr-points: (epoch, factor), or (share of the run, factor).
struct RatePoints {
    std::vector<std::pair<double, double>> points{};
    bool of_run = false;
};
RatePoints parse_rate_points(const std::string& option, const std::string& text);

}  // namespace convoy
