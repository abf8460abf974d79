// Writes metrics and checkpoints while rank 0 trains, on a thread of its own: no step waits for the
// disk. written() and metrics_changes() tell what failed; metrics that failed are written later.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "train/checkpoint.h"
#include "train/metrics.h"

namespace convoy {

class RunWriter {
public:
    struct Settings {
        RunFiles run_dir;
        int64_t keep = 1;          ///< as prune_checkpoints
        double publish_every = 5;  ///< seconds between two publishes of metrics.h5, at least
        double lines_every = 0.2;  ///< seconds between two writes of metrics.jsonl
    };
    /// What became of a checkpoint.
    struct Written {
        int64_t step = 0;
        std::string path;             ///< empty: only the best model was due
        std::string failure{};        ///< empty: the file is there, durably
        std::string model_failure{};  ///< of model-best.h5; empty: it was not due, or is there
        double seconds = 0;           ///< from when it was handed over to that
    };

    /// `state` and `metrics` must outlive this.
    RunWriter(Settings, const State& state, Metrics& metrics);
    /// Writes the checkpoints that were handed over, and ends.
    ~RunWriter();
    RunWriter(const RunWriter&) = delete;

    // Any thread may call these.

    /// Hands a checkpoint over. Waits only if another one waits already for the one that is being
    /// written. Metrics are published before it is there: a run that goes on from it finds every
    /// row that was added until now.
    void write(Checkpoint);
    /// Waits until write() would not.
    void wait_for_room();
    /// Waits until every checkpoint that was handed over is on disk, or has failed.
    void wait();
    /// Steps done by the newest checkpoint that is on disk; -1: none was written.
    int64_t newest() const { return newest_; }
    /// The checkpoints that are on disk, or failed, since the last call.
    std::vector<Written> written();
    /// How metrics began to fail (the message), or were written again (empty), in order, since the
    /// last call.
    std::vector<std::string> metrics_changes();

private:
    struct Task {
        Checkpoint checkpoint;
        Clock::time_point since;
    };
    void run();
    Written finish(const Task&);
    void write_due_metrics();
    void publish();
    void note_metrics(const std::string& failure);

    const Settings settings_;
    const State& state_;
    Metrics& metrics_;

    Clock::time_point next_publish_;  // the thread's
    std::atomic<int64_t> newest_{-1};

    std::mutex mutex_;  // of what follows
    std::condition_variable wake_, advanced_;
    bool ending_ = false, writing_ = false, metrics_fail_ = false;
    std::optional<Task> next_;  // waits to be written
    std::vector<Written> written_;
    std::vector<std::string> metrics_changes_;
    std::thread thread_;
};

}  // namespace convoy
