#include "train/state_snapshot.h"

#include <utility>

namespace convoy {
namespace {

void copy_out(TensorMemory& memory, const Tensor& from, std::vector<float>& to) {
    to.resize(from.count());
    memory.download(to.data(), from.data, from.bytes());
}

}  // namespace

void copy_out(TensorMemory& memory, const State& state, Checkpoint& to) {
    copy_out(memory, memory.kept_state(), to.backend);
    copy_out(memory, state.weights(), to.weights);
    copy_out(memory, state.optimizer_block(), to.optimizer);
}

void StateSnapshot::take(Checkpoint&& point) {
    if (!in_place_) copy_out(memory_, state_, point);
    const std::lock_guard lock(mutex_);
    point_ = std::move(point);
}

std::unique_lock<std::mutex> StateSnapshot::begin_change() {
    std::unique_lock lock(mutex_);
    if (in_place_) point_.reset();
    return lock;
}

void StateSnapshot::drop() {
    const std::lock_guard lock(mutex_);
    point_.reset();
}

std::optional<int64_t> StateSnapshot::step() const {
    const std::lock_guard lock(mutex_);
    return point_ ? std::optional(point_->step) : std::nullopt;
}

std::optional<Checkpoint> StateSnapshot::copy(int64_t newer_than) const {
    const std::lock_guard lock(mutex_);
    if (!point_ || point_->step <= newer_than) return std::nullopt;
    std::optional<Checkpoint> whole = point_;
    if (in_place_) copy_out(memory_, state_, *whole);
    return whole;
}

}  // namespace convoy
