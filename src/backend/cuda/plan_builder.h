// Threads that build cuDNN's plans while one thread times them: a fused plan compiles for seconds.
// They use no cuDNN handle, which one thread may use at a time, but the device's properties: from
// cuDNN 9.8 on a plan is of no handle, and runs with any.
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

/// A search among a spec's candidates: how far it is, and when it ends.
struct Search {
    bool needed = true;    ///< a training cannot do without
    bool hurried = false;  ///< the first that serves is taken
    int good = 0, failed = 0;
    double seconds = 0;  ///< of building and timing, on whatever thread

    explicit Search(const PlanSpec&, bool in_a_hurry);
    void add(bool is_good) { ++(is_good ? good : failed); }
    int tried() const { return good + failed; }
    bool enough() const;
};

/// A spec's graph, and what became of those candidates that were built already.
struct BuiltGraph {
    struct Attempt {
        bool built;
        double seconds;
    };
    std::shared_ptr<CudnnGraph> graph;
    std::map<int, Attempt> attempts{};  ///< by candidate
};

/// What a search will ask for, as far as that is known before anything is timed; with `engine`,
/// the candidate of that name. For the current device of the calling thread.
BuiltGraph build_candidates(const Cudnn&, const PlanSpec&, const std::string& engine, bool hurried, std::stop_token);

class PlanBuilder {
public:
    /// Ends early, with what there is, once the token says so.
    using Work = std::function<BuiltGraph(std::stop_token)>;

    explicit PlanBuilder(int threads) : most_threads_(threads) {}
    ~PlanBuilder() { drop(); }
    PlanBuilder(const PlanBuilder&) = delete;

    /// Work for the threads, in this order. Does nothing without threads, or if the key is there.
    void add(const std::string& key, Work);
    /// The result of work that was added, or nothing if none was. Waits for it, and calls
    /// `meanwhile` every few milliseconds. Throws what the work threw.
    std::optional<BuiltGraph> take(const std::string& key, const std::function<void()>& meanwhile);
    /// Nobody will take the rest.
    void drop();

private:
    struct Task {
        std::string key;
        std::packaged_task<BuiltGraph()> work;
    };
    void serve(const std::stop_token&);

    const int most_threads_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::deque<Task> queue_;                                  // guarded by mutex_
    std::map<std::string, std::future<BuiltGraph>> results_;  // of the calling thread
    std::stop_source stop_;                                   // of all work that was not dropped
    std::vector<std::jthread> threads_;                       // last: they use the others
};

}  // namespace convoy::cuda
