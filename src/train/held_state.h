// The newest state that a run can go on from. Another thread of rank 0 saves it if the job is ended
// in a long step or evaluation. Tensors in the host's memory are read in place until the update
// begins; of a device there is a host copy.
#pragma once
#include <mutex>
#include <optional>

#include "train/checkpoint.h"

namespace convoy {

/// Copies weights, optimizer state and what the backend keeps from the device into `to`.
void copy_out(Backend&, const State&, Checkpoint& to);

class HeldState {
public:
    /// Both must outlive this.
    HeldState(Backend& backend, const State& state) : backend_(backend), state_(state) {}

    /// From now on copy() gives this point: where the run stands, with the running statistics of
    /// all ranks.
    void hold(Checkpoint&& point);
    /// While the result lives, the caller may write weights and optimizer state. What was read in
    /// place is no longer held.
    [[nodiscard]] std::unique_lock<std::mutex> begin_change();
    /// Holds nothing any more.
    void drop();
    // Any thread may call these.
    /// Steps done at the point that is held; nothing if none is.
    std::optional<int64_t> step() const;
    /// The whole state there; nothing if none is held after step `newer_than`.
    std::optional<Checkpoint> copy(int64_t newer_than) const;

private:
    Backend& backend_;
    const State& state_;
    mutable std::mutex mutex_;
    std::optional<Checkpoint> point_;
};

}  // namespace convoy
