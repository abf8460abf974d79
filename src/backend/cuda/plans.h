// The plan for each spec: chosen by timing candidates on the device, remembered on disk by chip,
// cuDNN version and spec, so that a second run on the same kind of GPU starts at once and computes
// the same bits.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/handles.h"

namespace convoy::cuda {

constexpr float untimed = std::numeric_limits<float>::max();

struct Plan {
    std::shared_ptr<CudnnGraph> graph;
    int candidate = 0;
    float microseconds = 0;  ///< as measured when it was chosen, or `untimed`
    size_t workspace() const { return graph->workspace(candidate); }
    void run(const std::vector<std::pair<Slot, void*>>& operands, void* workspace_at) const {
        graph->run(candidate, operands, workspace_at);
    }
};

/// What the cache file holds: one line a spec, "key = microseconds engine". An empty engine: cuDNN
/// has none.
struct PlanChoice {
    std::string engine;
    float microseconds = 0;
};
using PlanChoices = std::map<std::string, PlanChoice>;
PlanChoices parse_choices(const std::string& text);
std::string text_of(const PlanChoices&);
/// Of a chip and cuDNN version, below $XDG_CACHE_HOME or ~/.cache; empty if there is neither.
std::string cache_path(const std::string& chip, const std::string& cudnn_version);

/// Bytes of one operand of a spec.
size_t operand_bytes(const PlanSpec&, Slot);
/// The operands of a kind of plan.
std::vector<Slot> operands_of(const PlanSpec&);

class Plans {
public:
    Plans(const Cudnn&, cudaStream_t, std::string path);
    /// The fastest plan, or nothing if cuDNN has no engine. Allocates and waits for the device
    /// where it has to measure.
    const Plan* find(const PlanSpec&);
    /// Microseconds of other work on the stream, measured once and remembered under this key.
    float measured(const std::string& key, const std::function<void()>& work);
    /// Writes the cache if something was measured; a cache that cannot be written is not an error.
    void save() const;

private:
    Plan choose(const PlanSpec&, std::shared_ptr<CudnnGraph>);
    /// Nothing if it cannot run after all.
    std::optional<float> time_candidate(const CudnnGraph&, int candidate, const PlanSpec&);
    float time(const std::function<void()>& work);

    const Cudnn& cudnn_;
    cudaStream_t stream_;
    std::string path_;
    PlanChoices choices_;
    mutable bool changed_ = false;
    std::map<std::string, Plan> plans_;  // by key; no graph: there is no engine
};

}  // namespace convoy::cuda
