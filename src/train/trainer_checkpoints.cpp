// Takes a trainer's state, and puts it back.
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
    c.ranks = comm_.size();
    if (comm_.root()) c.choices = backend_.choices();
    std::vector<float> running(state_.running().count());
    backend_.download(running.data(), state_.running().data, state_.running().bytes());
    c.running = comm_.gather(running);
    return c;
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
    restore_position(from);
    upload_rates();
    require(step_ <= total_steps_, "a run ends after the checkpoint it goes on from");
}

/// Each rank its own running statistics; on another number of ranks, the mean, as Comm::average
/// takes it.
void Trainer::restore_running(Checkpoint& from) {
    comm_.broadcast(&from.ranks, sizeof from.ranks);
    const size_t count = state_.running().count();
    from.running.resize(count * size_t(from.ranks));
    comm_.broadcast(from.running.data(), from.running.size() * sizeof(float));
    std::vector<float> running(count, 0.0f);
    for (size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < from.ranks; ++r) sum += from.running[size_t(r) * count + i];
        running[i] = from.ranks == comm_.size() ? from.running[size_t(comm_.rank()) * count + i]
                                                : float(sum / double(from.ranks));
    }
    backend_.upload(state_.running().data, running.data(), state_.running().bytes());
}

/// Not if another kind of backend wrote it.
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
