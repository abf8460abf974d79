// Decides when a training takes checkpoints, makes snapshots and stops. It goes by step numbers, by
// rank 0's clocks, and by the requests of all ranks, which come with the records of steps.
#pragma once
#include <atomic>
#include <vector>

#include "backend/backend.h"
#include "train/setup.h"

namespace convoy {

class RunClock {
public:
    /// The requests that came with some records, and whether an update was skipped.
    struct Requested {
        bool checkpoint = false, snapshot = false, skipped = false;
    };

    /// `root`: this is rank 0. `synchronous`: DeviceFacts::synchronous. Setup and requests must
    /// outlive this.
    RunClock(const TrainSetup&, Requests&, bool root, bool synchronous);

    bool stopped() const { return stopped_; }  ///< any thread may call this
    void stop() { stopped_ = true; }
    /// True if this rank was asked to stop.
    bool stop_requested() const { return requests_.stop.load() > 0; }

    /// True if a snapshot is made before each step; equal on all ranks.
    bool snapshotting() const { return snapshotting_; }
    void set_snapshotting(bool snapshotting) { snapshotting_ = snapshotting; }
    /// Requests snapshots until the duration of a step is known.
    void request_snapshot() {
        if (root_) requests_.snapshot = 1;
    }
    /// Notes that a snapshot was made now.
    void note_snapshot() { snapshot_at_ = Clock::now(); }

    /// True if step numbers ask for a checkpoint after `step` steps.
    bool checkpoint_step(int64_t step) const;
    /// True if this rank asks for a checkpoint after `step` steps, the end of `epoch` (from 0).
    bool checkpoint_due(int64_t step, int64_t epoch) const;
    /// Returns the requests in these records. `step`: number of launched steps. Sets stopped() if a
    /// rank asked to stop.
    Requested take_in(const std::vector<StepRecord>&, int64_t step);
    /// Sets the requests for checkpoints and stops that are due by rank 0's clocks. `margin`:
    /// seconds that pass until all ranks know of a stop and have stopped.
    void watch(double margin);
    /// Sets Requests::snapshot on rank 0 if records are read too rarely to react to a signal.
    /// `seconds`: time between two reads. Returns true if reads are frequent enough without
    /// snapshots. The caller then drops its snapshot, because it will be outdated.
    bool watch_length(double seconds);

    /// Begins a checkpoint of this state. Returns false if the newest checkpoint has this state and
    /// the run is not stopped.
    bool begin_checkpoint(int64_t step, bool evaluation_due);
    /// Sets the state that the newest checkpoint contains; `step` < 0: there is no checkpoint.
    void set_saved(int64_t step, bool evaluation_due);
    bool has_saved() const { return saved_step_ >= 0; }

private:
    const TrainSetup& setup_;
    Requests& requests_;
    const bool root_, synchronous_;
    Clock::time_point checkpointed_ = Clock::now(), snapshot_at_ = checkpointed_;
    std::atomic<bool> stopped_{false};
    bool snapshotting_ = true;
    int64_t saved_step_ = -1;  // step of the newest checkpoint
    bool saved_due_ = false;   // its evaluation was still due
};

}  // namespace convoy
