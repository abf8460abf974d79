// The loop over epochs and steps, with evaluations, and with checkpoints and stops by the clock.
#include <algorithm>
#include <cmath>
#include <utility>

#include "train/trainer.h"

namespace convoy {

Tally& Tally::operator+=(const Tally& t) {
    images += t.images;
    loss_sum += t.loss_sum;
    correct += t.correct;
    top5 += t.top5;
    return *this;
}

Tally tally_of_all(const StepRecord& r) {
    const auto images = double(r.images);
    return {.images = r.images,
            .loss_sum = r.loss * images,
            .correct = r.accuracy * images,
            .top5 = r.top5_accuracy * images};
}

Tally tally_of_own(const StepRecord& r) {
    return {.images = r.own_images, .loss_sum = r.own.loss_sum, .correct = r.own.correct, .top5 = r.own.top5};
}

void EpochSummary::add(const StepRecord& r) {
    ++steps;
    all += tally_of_all(r);
    own += tally_of_own(r);
    step_seconds += r.step_seconds;
    data_seconds += r.data_seconds;
    comm_exposed_seconds += r.comm_exposed_seconds;
}

void Trainer::run(TrainListener& listener) {
    const Phase phase(comm_.activity(), "training", "step", step_, total_steps_);
    if (comm_.root()) requests_.hold = 1;                 // until the duration of a step is known
    if (comm_.max(int64_t(requests_.stop.load())) > 0) {  // requested before the first step
        stopped_ = true;
        take_checkpoint(listener);
        return;
    }
    if (setup_.on_nan == OnNan::rollback && saved_step_ < 0) take_checkpoint(listener);  // to roll back to
    if (evaluation_due_) end_epoch((step_ - 1) / epoch_plan_.steps(), listener);
    while (step_ < total_steps_ && !stopped_) {
        run_epoch(step_ / epoch_plan_.steps(), listener);
        if (evaluation_due_ && !stopped_) end_epoch((step_ - 1) / epoch_plan_.steps(), listener);
    }
    if (!stopped_) average_running_statistics();  // for the model file, unless an evaluation has done it
}

void Trainer::upload_counters(int64_t epoch) {
    if (!supply_) {
        const std::vector<int32_t> order = permutation(train_.info().images, setup_.seed, uint32_t(epoch));
        backend_.upload(order_.get(), order.data(), order.size() * sizeof(int32_t));
    }
    const Counters counters{step_, epoch, step_ % epoch_plan_.steps() * setup_.global_batch};
    backend_.upload(counters_.get(), &counters, sizeof counters);
}

/// An epoch in progress.
struct Trainer::EpochRun {
    EpochSummary summary;
    int64_t first, last;  ///< steps of the epoch; first is not 0 if the run was resumed within it
    int64_t drained;      ///< number of the run's steps whose records were read
    int64_t marked;       ///< number of the run's steps that `reached` waits for, or that were read
    std::function<void()> reached{};
    std::vector<StepRecord> unreported{};
    Clock::time_point start = Clock::now(), reported = start;
};

/// The requests in some records of steps.
struct Trainer::Asked {
    bool checkpoint = false, skipped = false;
};

/// Returns the number of steps between two reads of records. A host far ahead of the device would
/// learn late of a request to stop, and would look stalled.
int64_t Trainer::look_interval() const {
    constexpr int64_t most_ahead = 32, intervals = 2;
    return backend_.synchronous() ? 1 : std::min(setup_.log_interval, most_ahead / intervals);
}

bool Trainer::checkpoint_step() const { return setup_.checkpoint_steps > 0 && step_ % setup_.checkpoint_steps == 0; }

/// Returns the new records of all launched steps, or of those launched before the last call.
std::vector<StepRecord> Trainer::read(EpochRun& e, bool all) {
    const int64_t until = all ? step_ : e.marked;
    const std::function<void()> reached = std::exchange(e.reached, all ? nullptr : backend_.mark());
    e.marked = step_;
    if (all)
        backend_.synchronize();
    else if (reached)
        reached();
    return drain(std::exchange(e.drained, until), until);
}

/// Returns new records. If one has a request, waits for all launched steps and adds their records:
/// requests are handled between two steps.
std::vector<StepRecord> Trainer::look(EpochRun& e, bool all) {
    std::vector<StepRecord> records = read(e, all || !looks_late());
    const bool ask = std::any_of(records.begin(), records.end(),
                                 [](const StepRecord& r) { return r.stop || r.checkpoint || r.hold || r.skipped; });
    if (!ask || e.drained == step_) return records;
    const std::vector<StepRecord> rest = read(e, true);
    records.insert(records.end(), rest.begin(), rest.end());
    return records;
}

/// Adds records to the epoch, sets stopped_, and returns the requests.
Trainer::Asked Trainer::take_in(const std::vector<StepRecord>& records, EpochRun& e) {
    e.unreported.insert(e.unreported.end(), records.begin(), records.end());
    Asked asked{.checkpoint = checkpoint_step()};
    for (const StepRecord& r : records) {
        e.summary.add(r);
        stopped_ = stopped_ || r.stop;
        asked.checkpoint = asked.checkpoint || r.checkpoint;
        asked.skipped = asked.skipped || r.skipped;
    }
    return asked;
}

/// True if the listener must get the records now. They must precede a checkpoint or a held state.
bool Trainer::report_due(const EpochRun& e, const Asked& asked, bool last, bool hold) const {
    constexpr double longest_silence = 2;  // seconds
    const bool by_steps = int64_t(e.unreported.size()) >= setup_.log_interval ||
                          (e.drained % epoch_plan_.steps() - e.first) % setup_.log_interval == 0;
    return by_steps || seconds_since(e.reported) >= longest_silence || last || asked.checkpoint || stopped_ ||
           asked.skipped || hold;
}

void Trainer::run_epoch(int64_t epoch, TrainListener& listener) {
    const auto range = backend_.range("epoch " + std::to_string(epoch + 1));
    const int64_t first = step_ % epoch_plan_.steps();
    EpochRun e{.summary = {.epoch = epoch + 1},
               .first = first,
               .last = std::min(epoch_plan_.steps(), total_steps_ - step_ + first),
               .drained = step_,
               .marked = step_};
    upload_counters(epoch);
    if (holding_) hold();
    const int64_t interval = look_interval();
    for (int64_t i = first; i < e.last && !stopped_; ++i) {
        supply_batch();
        program_of(step_).run();
        comm_.activity().set_step(++step_);
        comm_.activity().advance(step_);
        const bool last = i + 1 == e.last;
        const bool all = last || checkpoint_step() || listener.at_once(step_);
        if (step_ - e.marked < interval && !all) continue;
        const std::vector<StepRecord> records = look(e, all);
        if (records.empty()) continue;  // the first read, if records are read one interval late
        const Asked asked = take_in(records, e);
        if (report_due(e, asked, last, records.back().hold)) {
            listener.on_steps(epoch + 1, std::exchange(e.unreported, {}));
            e.reported = Clock::now();
        }
        if (asked.skipped && handle_skipped(records, listener)) return;
        if (!asked.skipped) skipped_in_a_row_ = 0;
        const double seconds_a_step = records.back().step_seconds;
        watch_clocks(double((looks_late() ? 3 : 2) * interval + 1) * seconds_a_step);
        watch_length(double(interval) * seconds_a_step);
        holding_ = records.back().hold;
        if (last) break;  // the end of the epoch is handled first
        if (asked.checkpoint || stopped_) take_checkpoint(listener);
        if (holding_ && !stopped_) hold();
    }
    if (step_ == total_steps_ || step_ % epoch_plan_.steps() == 0) {
        e.summary.seconds = seconds_since(e.start);
        listener.on_epoch(e.summary);
        evaluation_due_ = true;
        if (stopped_) take_checkpoint(listener);
    }
}

void Trainer::end_epoch(int64_t epoch, TrainListener& listener) {
    const bool last = step_ >= total_steps_;
    const bool wanted = evaluator_ && (last || (setup_.eval_every > 0 && (epoch + 1) % setup_.eval_every == 0));
    const double best = best_accuracy_;
    if (wanted) evaluate(epoch, listener);
    if (!stopped_) evaluation_due_ = false;
    const bool by_clock = requests_.checkpoint.load() > 0 ||
                          (setup_.checkpoint_steps > 0 && step_ % setup_.checkpoint_steps == 0) ||
                          (setup_.checkpoint_epochs > 0 && (epoch + 1) % setup_.checkpoint_epochs == 0);
    const bool better = best_accuracy_ > best, at_end = setup_.checkpoint_at_end && (last || better);
    if (comm_.max(int64_t(by_clock)) > 0 || stopped_ || at_end)
        take_checkpoint(listener);
    else if (better)
        hand_over_best(listener);
}

void Trainer::watch_clocks(double margin) {
    if (!comm_.root()) return;
    if (setup_.checkpoint_seconds > 0 && seconds_since(checkpointed_) >= setup_.checkpoint_seconds)
        requests_.checkpoint = 1;
    constexpr double checkpoint_seconds = 5;
    if (setup_.deadline && -seconds_since(*setup_.deadline) <= margin + checkpoint_seconds) requests_.stop = 1;
}

void Trainer::watch_length(double seconds) {
    if (!comm_.root()) return;
    constexpr double soon = 0.25, between_copies = 5;  // seconds
    const bool costs_little = backend_.synchronous() || seconds_since(held_at_) >= between_copies;
    requests_.hold = seconds >= soon && costs_little;
    if (seconds < soon) held_.drop();  // otherwise the copy would become outdated
}

std::vector<StepRecord> Trainer::drain(int64_t from, int64_t to) {
    std::vector<StepRecord> records(static_cast<size_t>(to - from));
    for (StepRecord& r : records) {
        r = static_cast<const StepRecord*>(ring_.get())[from % ring_size_];
        require(r.step == ++from, "the metrics ring holds every step since it was read");
    }
    return records;
}

void Trainer::average_running_statistics() {
    const size_t count = state_.running().count();
    if (setup_.sync_bn || dealing_.logical == 1 || count == 0 || averaged_step_ == step_) return;
    averaged_step_ = step_;
    std::vector<float> values(count);
    if (exact_) {
        const std::vector<float> all = running_statistics();
        if (comm_.root()) values = mean_of(all, count);
        comm_.broadcast(values.data(), count * sizeof(float));
    } else {
        backend_.download(values.data(), state_.running().data, state_.running().bytes());
        comm_.average(values);
    }
    for (int i = 0; i < state_.replicas(); ++i)
        backend_.upload(state_.running(i).data, values.data(), state_.running().bytes());
}

void Trainer::evaluate(int64_t epoch, TrainListener& listener) {
    const auto range = backend_.range("evaluation");
    average_running_statistics();
    hold();
    const std::optional<EvalResult> result = evaluator_->run([this] {
        watch_clocks(0);
        return requests_.stop.load() > 0;
    });
    if (!result) {
        stopped_ = true;
        return;
    }
    last_accuracy_ = result->accuracy;
    const bool best = last_accuracy_ > best_accuracy_;
    if (best) {
        best_accuracy_ = last_accuracy_;
        best_step_ = step_;
    }
    listener.on_eval(epoch + 1, step_, *result, best);
    if (!std::isfinite(result->loss) && setup_.on_nan == OnNan::stop)
        fail_everywhere(Exit::not_finite, "the test loss is not finite after step " + std::to_string(step_) +
                                              "; lower --lr or add --warmup-epochs");
}

}  // namespace convoy
