#include "train/trainer.h"

#include <algorithm>
#include <cmath>

namespace convoy {

Trainer::Trainer(Comm& comm, Backend& backend, const Graph& graph, const DataSet& train, const DataSet* test,
                 const TrainSetup& setup, Requests& requests, std::vector<EarlierGraph> earlier)
    : comm_(comm),
      backend_(backend),
      graph_(graph),
      train_(train),
      test_(test),
      setup_(setup),
      epoch_plan_(plan_epoch(train.info().images, setup.global_batch, setup.drop_last)),
      state_(graph, backend, &setup.optimizer, setup.look_ahead > 0),
      earlier_(std::move(earlier)),
      requests_(requests),
      held_(backend, state_) {
    const double steps = std::ceil(setup.epochs * double(epoch_plan_.steps()) - 1e-9);
    constexpr int64_t most_steps = 100'000'000;  // the schedule lies on the device, four bytes a step
    const int64_t all = int64_t(std::min(steps, 2.0 * most_steps));
    total_steps_ = setup.max_steps > 0 ? std::min(all, setup.max_steps) : all;
    if (total_steps_ > most_steps)
        fail(Exit::usage, "--epochs means " + std::to_string(int64_t(std::min(steps, 1e18))) +
                              " steps, more than Convoy can do; lower it");
    if (test) check_views(setup.tta, test->info(), setup.preprocessing);
    const size_t bucket = setup.bucket_bytes > 0 ? setup.bucket_bytes : backend.bucket_bytes();
    buckets_ = plan_buckets(state_.counts(), bucket / sizeof(float));
}

void Trainer::plan() {
    const int64_t epochs = (total_steps_ + epoch_plan_.steps() - 1) / epoch_plan_.steps();
    for (const EarlierGraph& e : earlier_)
        if (stages_.empty() || stages_.back().until < epochs) stages_.push_back({&e.graph, e.until, {}});
    if (stages_.empty() || stages_.back().until < epochs) stages_.push_back({&graph_, epochs, {}});
    stages_.back().until = INT64_MAX;  // what is measured after the last epoch, too
    for (Stage& stage : stages_)
        for (int64_t samples : {epoch_plan_.full_steps > 0 ? setup_.global_batch : 0, epoch_plan_.tail}) {
            if (samples == 0) continue;
            const Share mine = share_of(samples, comm_.size(), comm_.rank());
            const ProgramSpec spec{.batch = int(mine.count),
                                   .global_batch = samples,
                                   .first = mine.first,
                                   .training = true,
                                   .mixes = setup_.augment.mixes()};
            stage.programs.emplace_back().plan = plan_program(*stage.graph, backend_, spec);
            arena_bytes_ = std::max(arena_bytes_, stage.programs.back().plan.memory.bytes);
        }
    const BatchPlan batches{epoch_plan_, setup_.global_batch, {true, setup_.seed}, setup_.augment.mixes()};
    supply_ = train_.supply(comm_, backend_, batches, [this](auto... image) { return lines_shown(image...); });
    if (!test_) return;
    evaluator_ = std::make_unique<Evaluator>(comm_, backend_, graph_, state_, *test_, setup_.preprocessing,
                                             setup_.global_batch, setup_.tta);
    arena_bytes_ = std::max(arena_bytes_, evaluator_->arena_bytes());
}

void Trainer::initialise() {
    state_.initialise(graph_, backend_, setup_.seed);
    for (size_t id = 0; id < graph_.params.size(); ++id)
        if (graph_.params[id].init.kind == Init::whitening)
            set_whitening_filters(graph_.params[id], state_.params()[id]);
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
    if (supply_)
        supply_->build();
    else
        order_ = backend_.allocate(sizeof(int32_t) * train_.info().images);
    learning_rates_ = backend_.allocate(sizeof(float) * total_steps_);
    if (setup_.look_ahead > 0) decays_ = backend_.allocate(sizeof(float) * size_t(total_steps_ + 1));
    upload_rates();

    Update update = state_.update(setup_.optimizer, param_rules(setup_, epoch_plan_.steps()));
    update.learning_rates = static_cast<float*>(learning_rates_.get());
    update.counters = counters();
    update.latch = setup_.on_nan != OnNan::skip;
    for (Stage& stage : stages_)
        for (Runnable& r : stage.programs) build(r, *stage.graph, update);
    if (evaluator_) evaluator_->build(arena_);
}

/// Smaller images show as much: they are resized to be as much smaller.
Augment Trainer::augment_for(const Graph& graph) const {
    Augment augment = setup_.augment;
    if (&graph != &graph_ && augment.crop == Crop::shifted) {
        augment.crop = Crop::centre;
        augment.short_side = std::min(train_.info().height, train_.info().width);
    }
    const int64_t side = graph.values[graph.input].h, last = graph_.values[graph_.input].h;
    augment.short_side = int((augment.short_side * side + last - 1) / last);
    return augment;
}

void Trainer::build(Runnable& r, const Graph& graph, const Update& update) {
    const ProgramContext context{graph, backend_, state_, arena_, setup_.seed, setup_.sync_bn, counters(), &requests_};
    Program program = lower(context, r.plan, buckets_, [&](Program& p) {
        Gather batch = train_.batches(setup_.preprocessing, counters(), r.plan.spec.first, supply_.get());
        batch.order = static_cast<int32_t*>(order_.get());
        batch.x = p.input;
        batch.y = p.labels;
        batch.mixed = p.mixed;
        batch.global_batch = r.plan.spec.global_batch;
        batch.augment = augment_for(graph);
        batch.seed = setup_.seed;
        backend_.gather(batch, p.tape);
    });
    r.tape = program.tape;
    r.probes = std::move(program.probes);
    r.ending = {};
    backend_.update(update, r.ending);
    if (setup_.look_ahead > 0) {
        LookAhead average = state_.look_ahead(update);
        average.decays = static_cast<float*>(decays_.get());
        average.counters = counters();
        if (update.latch) average.stats = state_.stats();
        backend_.look_ahead(average, r.ending);
    }
    backend_.record({.stats = state_.stats(),
                     .own = state_.own_stats(),
                     .learning_rates = update.learning_rates,
                     .ring = static_cast<StepRecord*>(ring_.get()),
                     .ring_size = ring_size_,
                     .counters = counters(),
                     .batch = r.plan.spec.batch,
                     .global_batch = r.plan.spec.global_batch},
                    r.ending);
    program.tape.append(r.ending);
    r.run = backend_.synchronous() ? apart(r) : backend_.finish(std::move(program.tape));
}

/// A step whose weights, while they are not written yet, may be read by another thread.
std::function<void()> Trainer::apart(const Runnable& r) {
    return [this, gradients = backend_.finish(r.tape), update = backend_.finish(r.ending)] {
        gradients();
        const auto writing = held_.begin_change();
        update();
    };
}

const Trainer::Stage& Trainer::stage_of(int64_t epoch) const {
    return *std::find_if(stages_.begin(), stages_.end(), [&](const Stage& s) { return epoch < s.until; });
}

const Trainer::Runnable& Trainer::program_of(int64_t step) const {
    const Stage& stage = stage_of(step / epoch_plan_.steps());
    return step % epoch_plan_.steps() < epoch_plan_.full_steps ? stage.programs.front() : stage.programs.back();
}

Lines Trainer::lines_shown(int64_t epoch, int32_t sample, int height, int width) const {
    const Graph& graph = *stage_of(epoch).graph;
    const Value& seen = graph.values[graph.input];
    return convoy::lines_shown(augment_for(graph), height, width, seen.h, seen.w, setup_.seed, uint32_t(epoch),
                               uint32_t(sample));
}

void Trainer::supply_batch() {
    if (!supply_) return;
    if (supply_->step() != step_) supply_->begin(step_, total_steps_);
    supply_->next();
}

}  // namespace convoy
