// Builds cuDNN's plans on several threads while one thread times them, because a fused plan
// compiles for seconds. A plan is built with a cuDNN handle, which only one thread at a time may
// use, or with the device's properties. The threads use the properties. From cuDNN 9.8 on, a plan
// built with properties should run with any handle. If the plans of a family (PlanSpec::family())
// do not, each thread builds that family with a separate handle.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/cudnn_graph.h"

namespace convoy::cuda {

/// The state of a search among a spec's candidates.
struct Search {
    bool needed = true;    ///< true: training is impossible without a plan for this spec
    bool hurried = false;  ///< true: take the first candidate that works
    int good = 0, failed = 0;
    double seconds = 0;  ///< spent on building and timing, by all threads

    explicit Search(const PlanSpec&, bool in_a_hurry);
    void add(bool is_good) { ++(is_good ? good : failed); }
    int tried() const { return good + failed; }
    bool enough() const;
};

/// A spec's graph, and the outcome for each candidate that was built already.
struct BuiltGraph {
    struct Attempt {
        bool built;
        double seconds;
    };
    std::shared_ptr<CudnnGraph> graph;
    std::map<int, Attempt> attempts{};  ///< by candidate
};

/// Builds the candidates that a search will time, as far as that is known in advance. If `engine`
/// is not empty, builds only the candidate of that name. Builds for the current device of the
/// calling thread, and ends early once a stop is requested. Builds with `handle`, or with the
/// device's properties if that is null.
BuiltGraph build_candidates(const Cudnn&, const PlanSpec&, const std::string& engine, bool hurried, std::stop_token,
                            const Cudnn* handle = nullptr);

class PlanBuilder {
public:
    /// Work for a thread. It returns early, with what it has built, once a stop is requested.
    using Work = std::function<BuiltGraph(std::stop_token)>;

    explicit PlanBuilder(int threads) : most_threads_(threads) {}
    ~PlanBuilder() { drop(); }
    PlanBuilder(const PlanBuilder&) = delete;

    /// Queues work; threads take it in this order. Does nothing without threads, or if the key is
    /// queued already.
    void add(const std::string& key, const std::string& family, Work);
    /// Discards the results of this family that were not taken, and queues their work again.
    void repeat(const std::string& family);
    /// Returns the result of work that was added; nullopt if none was. Blocks until it is done and
    /// calls `meanwhile` every few milliseconds. Throws what the work threw.
    std::optional<BuiltGraph> take(const std::string& key, const std::function<void()>& meanwhile);
    /// Discards all work whose result was not taken, and asks running work to stop.
    void drop();

private:
    struct Task {
        std::string key;
        std::packaged_task<BuiltGraph()> work;
    };
    struct Order {
        std::string family;
        Work work;
        std::stop_source stop;
        std::future<BuiltGraph> result;
    };
    /// Returns a new task for an order. The order then waits for the result of this task.
    static Task task_of(const std::string& key, Order&);
    void serve(const std::stop_token&);

    const int most_threads_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::deque<Task> queue_;               // guarded by mutex_
    std::map<std::string, Order> orders_;  // not yet taken, by key; used by the calling thread only
    std::vector<std::jthread> threads_;    // last, because threads use the other members
};

}  // namespace convoy::cuda
