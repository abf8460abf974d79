#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

namespace convoy {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(Comm& comm, Backend& backend, const Graph& graph, const DataSet& train, const DataSet* test, const TrainSetup& setup)
    : comm_(comm),
      backend_(backend),
      graph_(graph),
      train_(train),
      setup_(setup),
      epoch_plan_(plan_epoch(train.info().images, setup.global_batch, setup.drop_last)),
      state_(graph, backend, &setup.optimizer) {
    const int64_t all = setup.epochs * epoch_plan_.steps();
    total_steps_ = setup.max_steps > 0 ? std::min(all, setup.max_steps) : all;
    constexpr int64_t most_steps = 100'000'000;  // the schedule lies on the device, four bytes a step
    if (total_steps_ > most_steps)
        fail(Exit::usage, "--epochs " + std::to_string(setup.epochs) + " means " + std::to_string(total_steps_) + " steps, more than Convoy can do; lower it");
    buckets_ = plan_buckets(state_.counts(), setup.bucket_bytes / sizeof(float));
    for (int64_t samples : {setup.global_batch, epoch_plan_.tail}) {
        const Share mine = share_of(samples, comm.size(), comm.rank());
        plans_.push_back(plan_program(graph, backend, {int(mine.count), samples, mine.first, true}));
        arena_bytes_ = std::max(arena_bytes_, plans_.back().memory.bytes);
    }
    if (test) {
        evaluator_ = std::make_unique<Evaluator>(comm, backend, graph, state_, *test, setup.normalisation, setup.global_batch);
        arena_bytes_ = std::max(arena_bytes_, evaluator_->arena_bytes());
    }
}

void Trainer::initialise() {
    state_.initialise(graph_, backend_, setup_.seed);
    std::vector<char> host;
    for (const Tensor& block : {state_.weights(), state_.running()}) {
        host.resize(block.bytes());
        backend_.download(host.data(), block.data, block.bytes());
        comm_.broadcast(host.data(), host.size());
        backend_.upload(block.data, host.data(), block.bytes());
    }
}

void Trainer::build() {
    arena_ = backend_.allocate(arena_bytes_);
    ring_size_ = std::max<int64_t>(setup_.log_interval, 16);
    counters_ = backend_.allocate(sizeof(Counters));
    ring_ = backend_.allocate(sizeof(StepRecord) * ring_size_);
    order_ = backend_.allocate(sizeof(int32_t) * train_.info().images);
    learning_rates_ = backend_.allocate(sizeof(float) * total_steps_);
    std::vector<float> rates(total_steps_);
    for (int64_t s = 0; s < total_steps_; ++s) rates[s] = float(learning_rate(setup_.schedule, s, epoch_plan_.steps(), total_steps_));
    backend_.upload(learning_rates_.get(), rates.data(), rates.size() * sizeof(float));

    auto* counters = static_cast<Counters*>(counters_.get());
    Update update = state_.update(setup_.optimizer, float(setup_.weight_decay), setup_.decay_weights_only);
    update.learning_rates = static_cast<float*>(learning_rates_.get());
    update.counters = counters;
    const ProgramContext context{graph_, backend_, state_, arena_, setup_.seed, setup_.sync_bn, counters};
    for (const ProgramPlan& plan : plans_) {
        Program program = lower(context, plan, buckets_, [&](Program& p) {
            backend_.gather({train_.images(), train_.labels(), static_cast<int32_t*>(order_.get()), counters, p.input, p.labels, plan.spec.first,
                             setup_.normalisation.mean, setup_.normalisation.stddev, setup_.augment, setup_.seed},
                            p.tape);
        });
        backend_.update(update, program.tape);
        backend_.record(state_.stats(), update.learning_rates, static_cast<StepRecord*>(ring_.get()), ring_size_, counters,
                        plan.spec.global_batch, program.tape);
        runs_.push_back(backend_.finish(std::move(program.tape)));
    }
    if (evaluator_) evaluator_->build(arena_);
}

void Trainer::run(TrainListener& listener) {
    while (step_ < total_steps_) {
        const int64_t epoch = step_ / epoch_plan_.steps();
        run_epoch(epoch, listener);
        const bool last = step_ >= total_steps_;
        if (evaluator_ && (last || (setup_.eval_every > 0 && (epoch + 1) % setup_.eval_every == 0))) evaluate(epoch, listener);
    }
}

void Trainer::run_epoch(int64_t epoch, TrainListener& listener) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> order = permutation(train_.info().images, setup_.seed, uint32_t(epoch));
    backend_.upload(order_.get(), order.data(), order.size() * sizeof(int32_t));
    const Counters counters{step_, epoch, 0};
    backend_.upload(counters_.get(), &counters, sizeof counters);

    const int64_t steps = std::min(epoch_plan_.steps(), total_steps_ - step_);
    int64_t drained = step_, images = 0;
    std::vector<StepRecord> all;
    for (int64_t i = 0; i < steps; ++i) {
        const bool full = i < epoch_plan_.full_steps;
        runs_[full ? 0 : 1]();
        images += plans_[full ? 0 : 1].spec.global_batch;
        ++step_;
        if (step_ - drained < setup_.log_interval && i + 1 < steps) continue;
        backend_.synchronize();
        const std::vector<StepRecord> records = drain(drained, step_);
        drained = step_;
        listener.on_steps(epoch + 1, records);
        all.insert(all.end(), records.begin(), records.end());
    }
    listener.on_epoch(epoch + 1, seconds_since(start), images, all);
}

std::vector<StepRecord> Trainer::drain(int64_t from, int64_t to) {
    std::vector<StepRecord> ring(ring_size_), records;
    backend_.download(ring.data(), ring_.get(), ring.size() * sizeof(StepRecord));
    for (int64_t s = from; s < to; ++s) {
        const StepRecord& r = ring[s % ring_size_];
        require(r.step == s + 1, "the metrics ring holds every step since it was read");
        if (!std::isfinite(r.loss)) {
            std::ostringstream message;
            message << "the loss is " << r.loss << " at step " << r.step << " (learning rate " << r.learning_rate
                    << "); lower --lr or add --warmup-epochs";
            Error error(Exit::not_finite, message.str());
            error.everywhere = true;  // the loss was summed over ranks: all of them see this
            throw error;
        }
        records.push_back(r);
    }
    return records;
}

void Trainer::average_running_statistics() {
    if (setup_.sync_bn || comm_.size() == 1 || state_.running().count() == 0) return;
    std::vector<float> values(state_.running().count());
    backend_.download(values.data(), state_.running().data, state_.running().bytes());
    comm_.average(values);
    backend_.upload(state_.running().data, values.data(), state_.running().bytes());
}

void Trainer::evaluate(int64_t epoch, TrainListener& listener) {
    average_running_statistics();
    last_eval_ = evaluator_->run();
    const bool best = last_eval_.accuracy > best_accuracy_;
    if (best) best_accuracy_ = last_eval_.accuracy;
    listener.on_eval(epoch + 1, step_, last_eval_, best);
}

}  // namespace convoy
