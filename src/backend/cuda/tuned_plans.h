// The chosen plan and its time for each spec, and their text in the cache file and in checkpoints.
#pragma once
#include <map>
#include <string>

namespace convoy::cuda {

/// Recorded instead of an engine when the time budget for a spec ran out.
inline constexpr const char* none_in_time = "none-in-time";

/// The plan tuned for a spec; a line "key = microseconds engine" of the cache file. An empty engine
/// means that cuDNN has none or, if the time is `untimed`, that none was searched for.
struct TunedPlan {
    std::string engine;
    float microseconds = 0;

    bool has_engine() const { return !engine.empty() && engine != none_in_time; }
    /// Returns the microseconds, or `missing` if there is no engine.
    float time() const;
};
using TunedPlans = std::map<std::string, TunedPlan>;
/// Parses the lines of text_of(); ignores other lines.
TunedPlans parse_tuned_plans(const std::string& text);
std::string text_of(const TunedPlans&);
/// Returns the path of the cache file for a chip and cuDNN version, below $XDG_CACHE_HOME or
/// ~/.cache; empty if the environment names neither.
std::string cache_path(const std::string& chip, const std::string& cudnn_version);

}  // namespace convoy::cuda
