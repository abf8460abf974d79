// Saves and restores a trainer's state.
#include "train/trainer.h"

namespace convoy {

Checkpoint Trainer::position() {
    Checkpoint c;
    c.step = step_;
    c.epoch = step_ / epoch_plan_.steps();
    c.offset = step_ % epoch_plan_.steps() * setup_.global_batch;
    c.evaluation_due = evaluation_due_;
    c.best_accuracy = best_accuracy_;
    c.last_accuracy = last_accuracy_;
    c.best_step = best_step_;
    c.rate_factor = rate_factor_;
    c.ranks = dealing_.logical;
    if (comm_.root()) c.choices = backend_.choices();
    if (exact_) c.exponents = exact_->exponents();
    c.running = running_statistics();
    return c;
}

std::vector<float> Trainer::running_statistics() {
    const size_t count = state_.running().count();
    const auto most = size_t(dealing_.logical_of(0).count);  // no rank has more than rank 0
    std::vector<float> mine(count * most);
    backend_.download(mine.data(), state_.running().data, size_t(logical_.count) * count * sizeof(float));
    const std::vector<float> gathered = comm_.gather(mine);
    std::vector<float> all;
    for (int rank = 0; comm_.root() && rank < comm_.size(); ++rank) {
        const auto from = gathered.begin() + ptrdiff_t(size_t(rank) * count * most);
        all.insert(all.end(), from, from + ptrdiff_t(size_t(dealing_.logical_of(rank).count) * count));
    }
    return all;
}

std::vector<float> Trainer::mean_of(const std::vector<float>& rows, size_t count) {
    std::vector<float> mean(count);
    const size_t n = rows.size() / count;
    for (size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (size_t r = 0; r < n; ++r) sum += rows[r * count + i];
        mean[i] = float(sum / double(n));
    }
    return mean;
}

void Trainer::hold() {
    held_at_ = Clock::now();
    Checkpoint here = position();
    if (comm_.root()) held_.hold(std::move(here));
}

void Trainer::take_checkpoint(TrainListener& listener) {
    checkpointed_ = Clock::now();
    requests_.checkpoint = 0;
    if (saved_step_ == step_ && saved_due_ == evaluation_due_ && !stopped_) return;
    saved_step_ = step_;
    saved_due_ = evaluation_due_;
    listener.before_checkpoint();
    Checkpoint c = position();
    if (comm_.root()) copy_out(backend_, state_, c);
    listener.on_checkpoint(std::move(c));
}

void Trainer::hand_over_best(TrainListener& listener) {
    listener.before_checkpoint();
    Checkpoint c = position();
    c.only_model = true;
    if (comm_.root()) copy_out(backend_, state_, c);
    listener.on_checkpoint(std::move(c));
}

void Trainer::restore(Checkpoint from) {
    held_.drop();
    const auto writing = held_.begin_change();
    const std::pair<std::vector<float>*, Tensor> blocks[] = {{&from.weights, state_.weights()},
                                                             {&from.optimizer, state_.optimizer_block()}};
    for (const auto& [values, block] : blocks) {
        values->resize(block.count());
        comm_.broadcast(values->data(), block.bytes());
        backend_.upload(block.data, values->data(), block.bytes());
    }
    restore_running(from);
    restore_kept_state(from);
    restore_exponents(from);
    restore_position(from);
    upload_rates();
    require(step_ <= total_steps_, "a run ends after the checkpoint it goes on from");
}

/// Restores each (logical) rank's running statistics. If their number has changed, all get the
/// mean, computed like Comm::average().
void Trainer::restore_running(Checkpoint& from) {
    comm_.broadcast(&from.ranks, sizeof from.ranks);
    const size_t count = state_.running().count();
    from.running.resize(count * size_t(from.ranks));
    comm_.broadcast(from.running.data(), from.running.size() * sizeof(float));
    if (count == 0) return;
    for (int i = 0; i < state_.replicas(); ++i) {
        const auto own = from.running.begin() + ptrdiff_t(size_t(logical_.first + i) * count);
        const std::vector<float> running = from.ranks == dealing_.logical
                                               ? std::vector<float>(own, own + ptrdiff_t(count))
                                               : mean_of(from.running, count);
        backend_.upload(state_.running(i).data, running.data(), state_.running().bytes());
    }
}

void Trainer::restore_exponents(Checkpoint& from) {
    if (!exact_) return;
    from.exponents.resize(state_.counts().size(), exponent::of_zero);
    comm_.broadcast(from.exponents.data(), from.exponents.size() * sizeof(int32_t));
    exact_->set_exponents(from.exponents);
}

/// Restores Backend::kept_state(), unless another kind of backend wrote it.
void Trainer::restore_kept_state(Checkpoint& from) {
    const Tensor kept = backend_.kept_state();
    int64_t fits = kept.count() > 0 && from.backend.size() == kept.count();
    comm_.broadcast(&fits, sizeof fits);
    from.backend.resize(kept.count());
    if (!fits) return;
    comm_.broadcast(from.backend.data(), kept.bytes());
    backend_.upload(kept.data, from.backend.data(), kept.bytes());
}

void Trainer::restore_position(const Checkpoint& from) {
    int64_t where[] = {from.step, from.evaluation_due, from.best_step};
    double real[] = {from.best_accuracy, from.last_accuracy, from.rate_factor};
    comm_.broadcast(where, sizeof where);
    comm_.broadcast(real, sizeof real);
    step_ = saved_step_ = where[0];
    averaged_step_ = -1;
    evaluation_due_ = saved_due_ = where[1] != 0;
    best_step_ = where[2];
    best_accuracy_ = real[0];
    last_accuracy_ = real[1];
    rate_factor_ = real[2];
}

}  // namespace convoy
