#include "train/held_state.h"

#include <utility>

namespace convoy {
namespace {

void copy_out(Backend& backend, const Tensor& from, std::vector<float>& to) {
    to.resize(from.count());
    backend.download(to.data(), from.data, from.bytes());
}

}  // namespace

void copy_out(Backend& backend, const State& state, Checkpoint& to) {
    copy_out(backend, backend.kept_state(), to.backend);
    copy_out(backend, state.weights(), to.weights);
    copy_out(backend, state.optimizer_block(), to.optimizer);
}

void HeldState::hold(Checkpoint&& point) {
    if (!backend_.synchronous()) copy_out(backend_, state_, point);
    const std::lock_guard lock(mutex_);
    point_ = std::move(point);
}

std::unique_lock<std::mutex> HeldState::begin_change() {
    std::unique_lock lock(mutex_);
    if (backend_.synchronous()) point_.reset();
    return lock;
}

void HeldState::drop() {
    const std::lock_guard lock(mutex_);
    point_.reset();
}

std::optional<int64_t> HeldState::step() const {
    const std::lock_guard lock(mutex_);
    return point_ ? std::optional(point_->step) : std::nullopt;
}

std::optional<Checkpoint> HeldState::copy(int64_t newer_than) const {
    const std::lock_guard lock(mutex_);
    if (!point_ || point_->step <= newer_than) return std::nullopt;
    std::optional<Checkpoint> whole = point_;
    if (backend_.synchronous()) copy_out(backend_, state_, *whole);
    return whole;
}

}  // namespace convoy
