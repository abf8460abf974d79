// Writes metrics and checkpoints on a separate thread while rank 0 trains, so that no step waits
// for the disk. written() and metrics_changes() report failures. Failed metrics are written later.
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
#include "run/metrics.h"
#include "train/checkpoint.h"

namespace convoy {

class RunWriter {
public:
    struct Settings {
        RunFiles run_dir;
        int64_t keep = 1;          ///< as in prune_checkpoints()
        double publish_every = 5;  ///< least seconds between two publishes of metrics.h5
        double lines_every = 0.2;  ///< seconds between two writes of metrics.jsonl
    };
    /// The result of writing a checkpoint.
    struct Written {
        int64_t step = 0;
        std::string path;             ///< empty: only the best model was due
        std::string failure{};        ///< empty: the file is durably on disk
        std::string model_failure{};  ///< for model-best.h5; empty: it was written, or not due
        double seconds = 0;           ///< time from write() to the result
    };

    /// `state` and `metrics` must outlive this.
    RunWriter(Settings, const State& state, Metrics& metrics);
    /// Writes the checkpoints passed to write(), and ends the thread.
    ~RunWriter();
    RunWriter(const RunWriter&) = delete;

    // Any thread may call these.

    /// Queues a checkpoint. Blocks only if one is being written and another is already queued.
    /// Metrics are published before the checkpoint exists, so a run that resumes from it finds
    /// every row that was added before.
    void write(Checkpoint);
    /// Blocks until write() would not block.
    void wait_for_room();
    /// Blocks until every queued checkpoint is on disk, or has failed.
    void wait();
    /// Returns the step of the newest checkpoint on disk; -1: none was written.
    int64_t newest() const { return newest_; }
    /// Returns the checkpoints that were written, or failed, since the last call.
    std::vector<Written> written();
    /// Returns changes since the last call, in order: a message if writing metrics began to fail,
    /// "" if it succeeded again.
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

    Clock::time_point next_publish_;  // used by the thread only
    std::atomic<int64_t> newest_{-1};

    std::mutex mutex_;  // guards the rest
    std::condition_variable wake_, advanced_;
    bool ending_ = false, writing_ = false, metrics_fail_ = false;
    std::optional<Task> next_;  // the queued checkpoint
    std::vector<Written> written_;
    std::vector<std::string> metrics_changes_;
    std::thread thread_;
};

}  // namespace convoy
