// Which plan was chosen for each spec and by which time: the text of the cache file, which
// checkpoints keep too.
#pragma once
#include <map>
#include <string>

namespace convoy::cuda {

/// In place of an engine's name: patience was over.
inline constexpr const char* none_in_time = "none-in-time";

/// What the cache file holds: one line a spec, "key = microseconds engine". An empty engine: cuDNN
/// has none or, if it is untimed, none was asked for.
struct PlanChoice {
    std::string engine;
    float microseconds = 0;

    bool has_engine() const { return !engine.empty() && engine != none_in_time; }
    /// `missing` if there is no engine.
    float time() const;
};
using PlanChoices = std::map<std::string, PlanChoice>;
PlanChoices parse_choices(const std::string& text);
std::string text_of(const PlanChoices&);
/// Of a chip and cuDNN version, below $XDG_CACHE_HOME or ~/.cache; empty if there is neither.
std::string cache_path(const std::string& chip, const std::string& cudnn_version);

}  // namespace convoy::cuda
