// The plan for each spec: chosen by timing candidates on the device, remembered on disk by chip,
// cuDNN version and spec, so that a second run on the same kind of GPU starts at once and computes
// the same bits. What this process chose, and by which times, it can tell other ranks and a
// checkpoint.
#pragma once
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/plan_builder.h"
#include "backend/cuda/plan_choices.h"
#include "backend/cuda/trial_log.h"
#include "backend/gpu/ways.h"
#include "base/clock.h"

namespace convoy::cuda {

struct Plan {
    std::shared_ptr<CudnnGraph> graph;
    int candidate = 0;
    float microseconds = 0;  ///< as measured when it was chosen, or `untimed`
    size_t workspace() const { return graph->workspace(candidate); }
    void run(const std::vector<std::pair<Slot, void*>>& operands, void* workspace_at, cudaStream_t stream) const {
        graph->run(candidate, operands, workspace_at, stream);
    }
};

/// On how many sets of operands of `bytes` work is timed by turns, so that a `cache` of the device
/// does not hold what a training reads from memory; at most 16.
size_t turns(size_t bytes, size_t cache);

class Plans {
public:
    /// The cache's file; seconds for measuring. Once they are over, what has to be is the first
    /// that cuDNN names, and nothing else has a time.
    struct Options {
        std::string path;
        double seconds = INFINITY;
        size_t cache = 0;  ///< bytes that the device's last cache holds
        /// called before each candidate is built or timed, and while one waits for others to build
        /// it; the seconds that it waited, for other ranks
        std::function<double()> alive = [] { return 0.0; };
        int threads = 0;  ///< that build what is expected; 0: find() builds by itself
    };
    Plans(const Cudnn&, cudaStream_t, Options);
    /// Microseconds, `missing` or `untimed`; nothing if it is to be measured.
    std::optional<float> known_time(const std::string& key) const;
    /// Times of these will be asked for, in about this order: threads build from now on those that
    /// are not known.
    void expect(const std::vector<PlanSpec>&);
    /// The fastest plan, or nothing if cuDNN has no engine. Allocates and waits for the device
    /// where it has to measure.
    const Plan* find(const PlanSpec&);
    /// Its time: where the cache knows it, without building the plan. `missing`: there is none.
    float time(const PlanSpec&);
    /// Builds plans, and drops what was expected and not asked for; false if a time that the cache
    /// gave is no longer so, because its engine cannot be built today.
    bool build(const std::vector<PlanSpec>&);
    /// The time of our kernels; measured once and remembered too.
    float time(const KernelSpec&);
    /// What was asked for so far and chosen, timed or not.
    const PlanChoices& choices() const { return chosen_; }
    /// What an earlier run or, binding, another rank chose is chosen here too. What this device
    /// cannot do is measured again and counted in unmet(); if it is binding, find() throws
    /// Exit::usage.
    void take(const PlanChoices&, bool binding);
    int unmet() const { return unmet_; }
    /// A line for each engine that is left out because it ended an earlier process.
    const std::set<std::string>& left_out() const { return trials_.notes(); }
    /// Writes the cache if something was measured; a cache that cannot be written is not an error.
    void save();
    /// Whether to write it at all; one rank of those that share it does.
    void let_save(bool saves) { saves_ = saves; }
    /// Plans built so far, including those that were only timed.
    int built() const { return built_; }

private:
    Plan choose(const PlanSpec&);
    Plan fastest(const PlanSpec&, const BuiltGraph&, Search&);
    /// Nothing if it cannot run after all, or ended an earlier process; `untimed` if it is only
    /// tried. Throws if the device fails: the next process will leave the candidate out.
    std::optional<float> time_candidate(const CudnnGraph&, int candidate, const PlanSpec&, bool timed);
    float run_candidate(const CudnnGraph&, int candidate, const PlanSpec&, bool timed);
    /// Of one of `works`, which do the same on memory of their own, by turns.
    float measure(const std::vector<std::function<void()>>& works);

    bool serves(const BuiltGraph& ahead, const PlanSpec&);
    /// Here, unless that was done: then its seconds are 0.
    BuiltGraph::Attempt build(const BuiltGraph&, int candidate);
    void build_ahead(const PlanSpec&);
    /// What build_ahead() gives; nothing if it was not called.
    std::optional<BuiltGraph> built_ahead(const std::string& key);
    const PlanChoice* known(const std::string& key) const;
    std::optional<Plan> as_known(const PlanSpec&, const BuiltGraph&);
    float answer(const std::string& key, const PlanChoice&);
    /// Seconds since the start, without those that other ranks took.
    double worked() const { return seconds_since(start_) - waited_; }
    bool in_time() const { return spent_ < options_.seconds; }
    void remember(const std::string& key, const PlanChoice&);

    const Cudnn& cudnn_;
    cudaStream_t stream_;
    const Options options_;
    TrialLog trials_;
    PlanChoices cached_, given_, chosen_;
    std::set<std::string> binding_;  // keys of given_
    int unmet_ = 0;
    bool changed_ = false, saves_ = true;
    Clock::time_point saved_ = Clock::now();
    const Clock::time_point start_ = Clock::now();
    double spent_ = 0, waited_ = 0;  // seconds
    int device_ = 0;                 // that is current
    std::atomic<int> built_ = 0;
    std::map<std::string, Plan> plans_;       // by key; no graph: there is no engine
    std::map<std::string, bool> runs_apart_;  // by family: what was built without the handle
    PlanBuilder builder_;                     // last: its threads use the others
};

}  // namespace convoy::cuda
