// The newest state that a run can resume from. If the job is ended during a long step or
// evaluation, another thread of rank 0 saves it. On CPUs, tensors are read in place, until the
// update begins to change them; for a GPU there is a host copy.
#pragma once
#include <mutex>
#include <optional>

#include "backend/backend.h"
#include "train/checkpoint.h"

namespace convoy {

/// Copies weights, optimizer state and TensorMemory::kept_state() from the device to `to`.
void copy_out(TensorMemory&, const State&, Checkpoint& to);

class StateSnapshot {
public:
    /// Both must outlive this.
    StateSnapshot(Backend& backend, const State& state)
        : memory_(backend), in_place_(backend.facts().synchronous), state_(state) {}

    /// Makes `point` the snapshot. It has the position of the run and the running statistics of all
    /// ranks.
    void take(Checkpoint&& point);
    /// Returns a lock; while it lives, the caller may write weights and optimizer state. Drops a
    /// snapshot whose tensors are read in place.
    [[nodiscard]] std::unique_lock<std::mutex> begin_change();
    /// Drops the snapshot.
    void drop();
    // Any thread may call these.
    /// Returns the number of steps done at the snapshot; nothing if there is none.
    std::optional<int64_t> step() const;
    /// Returns the whole snapshot; nothing if it is not newer than step `newer_than`.
    std::optional<Checkpoint> copy(int64_t newer_than) const;

private:
    TensorMemory& memory_;
    const bool in_place_;  // tensors are read in place, without a copy
    const State& state_;
    mutable std::mutex mutex_;
    std::optional<Checkpoint> point_;
};

}  // namespace convoy
