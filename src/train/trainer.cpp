#include "train/trainer.h"

#include <algorithm>
#include <cmath>

namespace convoy {

Trainer::Trainer(Comm& comm, Backend& backend, const Graph& graph, const DataSet& train, const DataSet* test, const TrainSetup& setup,
                 Requests& requests)
    : comm_(comm),
      backend_(backend),
      graph_(graph),
      train_(train),
      setup_(setup),
      epoch_plan_(plan_epoch(train.info().images, setup.global_batch, setup.drop_last)),
      state_(graph, backend, &setup.optimizer, setup.look_ahead > 0),
      requests_(requests),
      held_(backend, state_) {
    const double steps = std::ceil(setup.epochs * double(epoch_plan_.steps()) - 1e-9);
    constexpr int64_t most_steps = 100'000'000;  // the schedule lies on the device, four bytes a step
    const int64_t all = int64_t(std::min(steps, 2.0 * most_steps));
    total_steps_ = setup.max_steps > 0 ? std::min(all, setup.max_steps) : all;
    if (total_steps_ > most_steps)
        fail(Exit::usage, "--epochs means " + std::to_string(int64_t(std::min(steps, 1e18))) + " steps, more than Convoy can do; lower it");
    buckets_ = plan_buckets(state_.counts(), setup.bucket_bytes / sizeof(float));
    for (int64_t samples : {epoch_plan_.full_steps > 0 ? setup.global_batch : 0, epoch_plan_.tail}) {
        if (samples == 0) continue;
        const Share mine = share_of(samples, comm.size(), comm.rank());
        programs_.push_back({plan_program(graph, backend, {int(mine.count), samples, mine.first, true}), {}, {}, {}, {}});
        arena_bytes_ = std::max(arena_bytes_, programs_.back().plan.memory.bytes);
    }
    if (test) {
        evaluator_ = std::make_unique<Evaluator>(comm, backend, graph, state_, *test, setup.normalisation, setup.global_batch, setup.tta);
        arena_bytes_ = std::max(arena_bytes_, evaluator_->arena_bytes());
    }
}

void EpochSummary::add(const StepRecord& r, int64_t images_of_step) {
    ++steps;
    images += images_of_step;
    loss_sum += r.loss * double(images_of_step);
    correct += r.accuracy * double(images_of_step);
    step_seconds += r.step_seconds;
    data_seconds += r.data_seconds;
    comm_exposed_seconds += r.comm_exposed_seconds;
}

void Trainer::initialise() {
    state_.initialise(graph_, backend_, setup_.seed);
    if (comm_.root()) set_whitening_filters();
    std::vector<char> host;
    for (const Tensor& block : {state_.weights(), state_.running()}) {
        host.resize(block.bytes());
        backend_.download(host.data(), block.data, block.bytes());
        comm_.broadcast(host.data(), host.size());
        backend_.upload(block.data, host.data(), block.bytes());
    }
    state_.start_look_ahead(backend_);
}

void Trainer::build() {
    const Doing doing(comm_.activity(), "building the programs");
    arena_ = backend_.allocate(arena_bytes_);
    ring_size_ = std::max<int64_t>(setup_.log_interval, 16);
    counters_ = backend_.allocate(sizeof(Counters));
    ring_ = backend_.allocate(sizeof(StepRecord) * ring_size_);
    order_ = backend_.allocate(sizeof(int32_t) * train_.info().images);
    learning_rates_ = backend_.allocate(sizeof(float) * total_steps_);
    if (setup_.look_ahead > 0) decays_ = backend_.allocate(sizeof(float) * size_t(total_steps_ + 1));
    upload_rates();

    auto* counters = static_cast<Counters*>(counters_.get());
    Update update = state_.update(setup_.optimizer, param_rules(setup_, epoch_plan_.steps()));
    update.learning_rates = static_cast<float*>(learning_rates_.get());
    update.counters = counters;
    update.latch = setup_.on_nan != OnNan::skip;
    const ProgramContext context{graph_, backend_, state_, arena_, setup_.seed, setup_.sync_bn, counters, &requests_};
    for (Runnable& r : programs_) {
        Program program = lower(context, r.plan, buckets_, [&](Program& p) {
            backend_.gather({train_.images(), train_.labels(), static_cast<int32_t*>(order_.get()), counters, p.input, p.labels, r.plan.spec.first,
                             setup_.normalisation.mean, setup_.normalisation.stddev, setup_.augment, setup_.seed},
                            p.tape);
        });
        r.tape = program.tape;
        r.probes = std::move(program.probes);
        backend_.update(update, program.tape);
        if (setup_.look_ahead > 0) {
            LookAhead average = state_.look_ahead(update);
            average.decays = static_cast<float*>(decays_.get());
            average.counters = counters;
            if (update.latch) average.stats = state_.stats();
            backend_.look_ahead(average, program.tape);
        }
        backend_.record(state_.stats(), update.learning_rates, static_cast<StepRecord*>(ring_.get()), ring_size_, counters,
                        r.plan.spec.global_batch, program.tape);
        r.ending.assign(program.tape.begin() + long(r.tape.size()), program.tape.end());
        r.run = backend_.synchronous() ? apart(r) : backend_.finish(std::move(program.tape));
    }
    if (evaluator_) evaluator_->build(arena_);
}

/// A step whose weights, while they are not written yet, may be read by another thread.
std::function<void()> Trainer::apart(const Runnable& r) {
    return [this, gradients = backend_.finish(r.tape), update = backend_.finish(r.ending)] {
        gradients();
        const auto writing = held_.begin_change();
        update();
    };
}

const Trainer::Runnable& Trainer::program_of(int64_t step_of_epoch) const {
    return step_of_epoch < epoch_plan_.full_steps ? programs_.front() : programs_.back();
}

void Trainer::run(TrainListener& listener) {
    const Phase phase(comm_.activity(), "training", "step", step_, total_steps_);
    if (comm_.root()) requests_.hold = 1;  // until a step has shown how long it takes
    if (comm_.max(int64_t(requests_.stop.load())) > 0) {  // asked for before the first step
        stopped_ = true;
        take_checkpoint(listener);
        return;
    }
    if (setup_.on_nan == OnNan::rollback && saved_step_ < 0) take_checkpoint(listener);  // something to go back to
    if (evaluation_due_) end_epoch((step_ - 1) / epoch_plan_.steps(), listener);
    while (step_ < total_steps_ && !stopped_) {
        run_epoch(step_ / epoch_plan_.steps(), listener);
        if (evaluation_due_ && !stopped_) end_epoch((step_ - 1) / epoch_plan_.steps(), listener);
    }
    if (!stopped_) average_running_statistics();  // for the model file, should no evaluation have done it
}

void Trainer::upload_counters(int64_t epoch) {
    const std::vector<int32_t> order = permutation(train_.info().images, setup_.seed, uint32_t(epoch));
    backend_.upload(order_.get(), order.data(), order.size() * sizeof(int32_t));
    const Counters counters{step_, epoch, step_ % epoch_plan_.steps() * setup_.global_batch};
    backend_.upload(counters_.get(), &counters, sizeof counters);
}

void Trainer::run_epoch(int64_t epoch, TrainListener& listener) {
    const auto range = backend_.range("epoch " + std::to_string(epoch + 1));
    const auto start = Clock::now();
    upload_counters(epoch);
    if (holding_) hold();
    const int64_t first = step_ % epoch_plan_.steps();  // not 0 if the run was resumed here
    const int64_t last = std::min(epoch_plan_.steps(), total_steps_ - step_ + first);
    // A host that is far ahead learns late of a request to stop, and looks stalled.
    constexpr int64_t most_ahead = 32;
    const int64_t interval = backend_.synchronous() ? 1 : std::min(setup_.log_interval, most_ahead);
    const auto checkpoint_step = [&] { return setup_.checkpoint_steps > 0 && step_ % setup_.checkpoint_steps == 0; };
    int64_t drained = step_;
    EpochSummary summary;
    summary.epoch = epoch + 1;
    std::vector<StepRecord> unreported;
    constexpr double longest_silence = 2;  // seconds
    Clock::time_point reported = start;
    for (int64_t i = first; i < last && !stopped_; ++i) {
        program_of(i).run();
        comm_.activity().set_step(++step_);
        comm_.activity().advance(step_);
        if (step_ - drained < interval && i + 1 < last && !checkpoint_step()) continue;
        backend_.synchronize();
        const std::vector<StepRecord> records = drain(drained, step_);
        drained = step_;
        unreported.insert(unreported.end(), records.begin(), records.end());
        bool checkpoint = checkpoint_step(), skipped = false;
        for (const StepRecord& r : records) {
            summary.add(r, program_of((r.step - 1) % epoch_plan_.steps()).plan.spec.global_batch);
            stopped_ = stopped_ || r.stop;
            checkpoint = checkpoint || r.checkpoint;
            skipped = skipped || r.skipped;
        }
        const bool by_steps = int64_t(unreported.size()) >= setup_.log_interval || (i + 1 - first) % setup_.log_interval == 0;
        if (by_steps || seconds_since(reported) >= longest_silence || i + 1 == last || checkpoint || stopped_ || skipped ||
            records.back().hold) {  // what is held has its rows
            listener.on_steps(epoch + 1, unreported);
            unreported.clear();
            reported = Clock::now();
        }
        if (skipped && handle_skipped(records, listener)) return;
        if (!skipped) skipped_in_a_row_ = 0;
        watch_clocks(double(2 * interval + 1) * records.back().step_seconds);
        watch_length(double(interval) * records.back().step_seconds);
        holding_ = records.back().hold;
        if (i + 1 == last) break;  // the end of the epoch comes first
        if (checkpoint || stopped_) take_checkpoint(listener);
        if (holding_ && !stopped_) hold();
    }
    if (step_ == total_steps_ || step_ % epoch_plan_.steps() == 0) {
        summary.seconds = seconds_since(start);
        listener.on_epoch(summary);
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
    const bool by_clock = requests_.checkpoint.load() > 0 || (setup_.checkpoint_steps > 0 && step_ % setup_.checkpoint_steps == 0) ||
                          (setup_.checkpoint_epochs > 0 && (epoch + 1) % setup_.checkpoint_epochs == 0);
    if (comm_.max(int64_t(by_clock)) > 0 || stopped_ || last || best_accuracy_ > best) take_checkpoint(listener);
}

void Trainer::watch_clocks(double margin) {
    if (!comm_.root()) return;
    if (setup_.checkpoint_seconds > 0 && seconds_since(checkpointed_) >= setup_.checkpoint_seconds) requests_.checkpoint = 1;
    constexpr double checkpoint_seconds = 5;
    if (setup_.deadline && -seconds_since(*setup_.deadline) <= margin + checkpoint_seconds) requests_.stop = 1;
}

void Trainer::watch_length(double seconds) {
    if (!comm_.root()) return;
    constexpr double soon = 0.25, between_copies = 5;  // seconds
    const bool costs_little = backend_.synchronous() || seconds_since(held_at_) >= between_copies;
    requests_.hold = seconds >= soon && costs_little;
    if (seconds < soon) held_.drop();  // a copy would be older and older
}

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
    const std::pair<std::vector<float>*, Tensor> blocks[] = {{&from.weights, state_.weights()}, {&from.optimizer, state_.optimizer_block()}};
    for (const auto& [values, block] : blocks) {
        values->resize(block.count());
        comm_.broadcast(values->data(), block.bytes());
        backend_.upload(block.data, values->data(), block.bytes());
    }
    comm_.broadcast(&from.ranks, sizeof from.ranks);
    const size_t count = state_.running().count();
    from.running.resize(count * size_t(from.ranks));
    comm_.broadcast(from.running.data(), from.running.size() * sizeof(float));
    std::vector<float> running(count, 0.0f);
    for (size_t i = 0; i < count; ++i) {  // each rank its own; on another number of ranks, the mean, as Comm::average takes it
        double sum = 0;
        for (int64_t r = 0; r < from.ranks; ++r) sum += from.running[size_t(r) * count + i];
        running[i] = from.ranks == comm_.size() ? from.running[size_t(comm_.rank()) * count + i] : float(sum / double(from.ranks));
    }
    backend_.upload(state_.running().data, running.data(), state_.running().bytes());

    const Tensor kept = backend_.kept_state();
    int64_t fits = kept.count() > 0 && from.backend.size() == kept.count();  // not if another kind of backend wrote it
    comm_.broadcast(&fits, sizeof fits);
    from.backend.resize(kept.count());
    if (fits) {
        comm_.broadcast(from.backend.data(), kept.bytes());
        backend_.upload(kept.data, from.backend.data(), kept.bytes());
    }

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
    upload_rates();
    require(step_ <= total_steps_, "a run ends after the checkpoint it goes on from");
}

std::vector<StepRecord> Trainer::drain(int64_t from, int64_t to) {
    std::vector<StepRecord> records(static_cast<size_t>(to - from));
    for (int64_t s = from; s < to;) {  // a run of steps may go around the end of the ring
        const int64_t at = s % ring_size_, count = std::min(to - s, ring_size_ - at);
        backend_.download(&records[size_t(s - from)], static_cast<StepRecord*>(ring_.get()) + at, size_t(count) * sizeof(StepRecord));
        s += count;
    }
    for (const StepRecord& r : records) require(r.step == ++from, "the metrics ring holds every step since it was read");
    return records;
}

void Trainer::average_running_statistics() {
    if (setup_.sync_bn || comm_.size() == 1 || state_.running().count() == 0 || averaged_step_ == step_) return;
    averaged_step_ = step_;
    std::vector<float> values(state_.running().count());
    backend_.download(values.data(), state_.running().data, state_.running().bytes());
    comm_.average(values);
    backend_.upload(state_.running().data, values.data(), state_.running().bytes());
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
        fail_everywhere(Exit::not_finite, "the test loss is not finite after step " + std::to_string(step_) + "; lower --lr or add --warmup-epochs");
}

}  // namespace convoy
