// Chooses the plan for each spec by timing candidates on the device. Plans are cached on disk by
// chip, cuDNN version and spec. So a second run on the same kind of GPU starts at once and computes
// the same bits. Other ranks and checkpoints get the plans with their times.
#pragma once
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/plan_builder.h"
#include "backend/cuda/trial_log.h"
#include "backend/cuda/tuned_plans.h"
#include "backend/gpu/algorithms.h"
#include "base/clock.h"

namespace convoy::cuda {

struct Plan {
    std::shared_ptr<CudnnGraph> graph;
    int candidate = 0;
    float microseconds = 0;  ///< measured when the plan was selected, or `untimed`
    size_t workspace() const { return graph->workspace(candidate); }
    void run(const std::vector<std::pair<Slot, void*>>& operands, void* workspace_at, cudaStream_t stream) const {
        graph->run(candidate, operands, workspace_at, stream);
    }
};

class Plans {
public:
    struct Options {
        std::string path;  ///< of the cache file
        /// for timing. Later specs are `untimed`, or get cuDNN's first plan if they must run
        double seconds = INFINITY;
        size_t cache = 0;  ///< bytes of the device's L2 cache
        /// called before each candidate is built or timed, and while waiting for other threads;
        /// returns the seconds that it waited for other ranks
        std::function<double()> alive = [] { return 0.0; };
        int threads = 0;  ///< number of threads that build expected plans; 0: find() builds them itself
    };
    Plans(const Cudnn&, cudaStream_t, Options);
    /// Returns the known microseconds, `missing` or `untimed`; nullopt if they must be measured.
    std::optional<float> known_time(const std::string& key) const;
    /// Announces the specs whose times will be asked for, in about this order. Threads begin to
    /// build those that are not known.
    void expect(const std::vector<PlanSpec>&);
    /// Returns the fastest plan; null if cuDNN has no engine. If it must measure, it allocates and
    /// waits for the device.
    const Plan* find(const PlanSpec&);
    /// Returns the microseconds of the fastest plan, or `missing` or `untimed`. Does not build the
    /// plan if the cache knows the time.
    float time(const PlanSpec&);
    /// Builds plans and discards other expected ones. Returns false if a time from the cache has
    /// changed, because its engine could not be built.
    bool build(const std::vector<PlanSpec>&);
    /// Returns the microseconds of our kernels; measured once and cached too.
    float time(const KernelSpec&);
    /// Returns all plans chosen so far, timed or not.
    const TunedPlans& tuning() const { return chosen_; }
    /// Makes find() choose these plans of an earlier run or, if `binding`, of another rank. If this
    /// device cannot build a binding plan, find() throws Exit::usage. If it cannot build a plan
    /// that is not binding, find() counts it in unmet() and chooses again.
    void take(const TunedPlans&, bool binding);
    int unmet() const { return unmet_; }
    /// Returns lines for people: each engine that is left out because it ended an earlier process,
    /// and families that had to be built with handles.
    std::set<std::string> notes() const;
    /// Writes the cache file if something was measured; failure is not an error.
    void save();
    /// Sets whether save() writes; one of the ranks that share the file does.
    void let_save(bool saves) { saves_ = saves; }
    /// Returns the number of plans built so far, including those that were only timed.
    int built() const { return built_; }

private:
    Plan choose(const PlanSpec&);
    Plan fastest(const PlanSpec&, const BuiltGraph&, Search&);
    /// Returns the microseconds of a candidate. `untimed` if not `timed`, or if memory does not
    /// suffice. Nullopt if it cannot run, or ended an earlier process. Throws if the device fails;
    /// the next process then leaves the candidate out.
    std::optional<float> time_candidate(const CudnnGraph&, int candidate, const PlanSpec&, bool timed);
    float run_candidate(const CudnnGraph&, int candidate, const PlanSpec&, bool timed);
    /// Returns the microseconds of one of `works`, which do the same work on separate memory. Runs
    /// them in turn.
    float measure(const std::vector<std::function<void()>>& works);

    /// How the builder's threads build the plans of a family.
    struct Family {
        bool runs = false;  ///< a plan that a thread built has run on this device
        /// True once a plan that was built with the device's properties did not run, but ran when
        /// it was built with a handle. Threads then build with separate handles.
        std::atomic<bool> by_handle = false;
    };
    bool serves(const BuiltGraph& ahead, const PlanSpec&);
    BuiltGraph build_with_handle(const BuiltGraph& ahead, const PlanSpec&);
    /// Returns the handle of the calling thread, which builds with it.
    const Cudnn& handle_of_thread();
    /// Builds a candidate here, unless a thread did so. `seconds` are those of the thread, else 0.
    BuiltGraph::Attempt build(const BuiltGraph&, int candidate);
    void build_ahead(const PlanSpec&);
    /// Waits for the result of build_ahead(); nullopt if that was not called.
    std::optional<BuiltGraph> built_ahead(const std::string& key);
    const TunedPlan* known(const std::string& key) const;
    std::optional<Plan> as_known(const PlanSpec&, const BuiltGraph&);
    float answer(const std::string& key, const TunedPlan&);
    /// Returns the seconds since the start, without those spent waiting for other ranks.
    double worked() const { return seconds_since(start_) - waited_; }
    bool in_time() const { return spent_ < options_.seconds; }
    void remember(const std::string& key, const TunedPlan&);

    const Cudnn& cudnn_;
    cudaStream_t stream_;
    const Options options_;
    TrialLog trials_;
    TunedPlans cached_, given_, chosen_;
    std::set<std::string> binding_;  // keys of given_ that are binding
    int unmet_ = 0;
    bool changed_ = false, saves_ = true;
    Clock::time_point saved_ = Clock::now();
    const Clock::time_point start_ = Clock::now();
    double spent_ = 0, waited_ = 0;  // seconds
    int device_ = 0;                 // the current device of the constructing thread
    std::atomic<int> built_ = 0;
    std::mutex handles_mutex_;
    std::map<std::thread::id, Cudnn> handles_;  // guarded by handles_mutex_; before plans_, whose graphs use them
    std::map<std::string, Plan> plans_;         // by key; a null graph: there is no engine
    std::map<std::string, Family> families_;    // by name
    PlanBuilder builder_;                       // last, because its threads use the other members
};

}  // namespace convoy::cuda
