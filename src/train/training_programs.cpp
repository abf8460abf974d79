#include "train/training_programs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/whitening.h"

namespace convoy {
namespace {

int64_t steps_of(const TrainSetup& setup, int64_t steps_per_epoch) {
    const double steps = std::ceil(setup.epochs * double(steps_per_epoch) - 1e-9);
    constexpr int64_t most_steps = 100'000'000;  // the schedule on the device has four bytes per step
    const int64_t all = int64_t(std::min(steps, 2.0 * most_steps));
    const int64_t total = setup.max_steps > 0 ? std::min(all, setup.max_steps) : all;
    if (total > most_steps)
        fail(Exit::usage, "--epochs means " + std::to_string(int64_t(std::min(steps, 1e18))) +
                              " steps, more than Convoy can do; lower it");
    return total;
}

/// Collective. Computes the filters of a whitening convolution from the first images of a split,
/// and writes them on rank 0.
void set_whitening_filters(Comm& comm, Backend& backend, const DataSet& train, const Preprocessing& preprocessing,
                           const Param& p, const Tensor& to) {
    constexpr int64_t most_images = 5000;
    const SplitInfo& data = train.info();
    const int64_t images = std::min(data.images, most_images);
    const std::vector<uint8_t> pixels = train.first_pixels(comm, images);
    if (!comm.root()) return;
    const std::vector<float> filters = whitening_filters(
        {pixels.data(), int(images), data.height, data.width, data.channels, preprocessing.mean, preprocessing.stddev},
        p.shape.h);
    require(filters.size() == p.shape.count(),
            "a whitening convolution has twice as many filters as a patch has numbers");
    backend.upload(to.data, filters.data(), filters.size() * sizeof(float));
}

std::vector<Tape> tapes_of(const std::vector<Program>& parts) {
    std::vector<Tape> tapes;
    for (const Program& part : parts) tapes.push_back(part.tape);
    return tapes;
}

}  // namespace

TrainingPrograms::TrainingPrograms(Comm& comm, Backend& backend, const Graph& graph, const DataSet& train,
                                   const DataSet* test, const TrainSetup& setup, const Requests& requests,
                                   std::vector<EarlierGraph> earlier)
    : comm_(comm),
      backend_(backend),
      graph_(graph),
      train_(train),
      test_(test),
      setup_(setup),
      requests_(requests),
      batch_split_(setup.batch_split(comm.size())),
      epoch_steps_(steps_of_epoch(train.info().images, setup.global_batch, setup.drop_last)),
      total_steps_(steps_of(setup, epoch_steps_.steps())),
      state_(graph, backend, &setup.optimizer, setup.look_ahead > 0, int(batch_split_.logical_of(comm.rank()).count)),
      earlier_(std::move(earlier)) {
    if (test) check_views(setup.tta, test->info(), setup.preprocessing);
    const size_t bucket = setup.bucket_bytes > 0 ? setup.bucket_bytes : backend.facts().bucket_bytes;
    buckets_ = cut_buckets(state_.counts(), bucket / sizeof(float));
    if (setup.logical_ranks > 0) exact_ = std::make_unique<LogicalRanks>(batch_split_, comm.rank(), backend, state_);
}

/// Divides the training into stages. A stage ends when images get another size, or when a parameter
/// is no longer trained.
void TrainingPrograms::prepare_stages() {
    const ParamRules rules = param_rules(setup_, epoch_steps_.steps());
    std::set<int64_t> ends = {INT64_MAX};
    for (const EarlierGraph& e : earlier_) ends.insert(e.until * epoch_steps_.steps());
    for (const Param& p : graph_.params) ends.insert(rules(p).steps);
    int64_t from = 0;
    for (const int64_t until : ends) {
        const auto earlier = std::find_if(earlier_.begin(), earlier_.end(),
                                          [&](const EarlierGraph& e) { return from < e.until * epoch_steps_.steps(); });
        const bool resized = earlier != earlier_.end();
        Graph graph = resized ? earlier->graph : graph_;
        for (Param& p : graph.params) p.frozen = p.frozen || rules(p).steps <= from;
        stages_.push_back({std::make_unique<const Graph>(std::move(graph)), resized, until, {}});
        from = until;
        if (from >= total_steps_) break;
    }
    stages_.back().until = INT64_MAX;  // includes steps that are measured after the last epoch
}

int TrainingPrograms::audited_ranks() const {
    // A rank that is alone computes its own share again.
    return setup_.audit_every > 0 ? std::max(batch_order().audited_ranks(comm_.size()), 1) : 0;
}

int TrainingPrograms::lanes_for(size_t logical) const {
    return exact_ ? std::min(backend_.facts().lanes, int(logical)) : 1;
}

int TrainingPrograms::arenas() const {
    return setup_.audit_every > 0 ? lanes_for(size_t(batch_split_.logical_of(0).count)) : lanes();
}

BatchOrder TrainingPrograms::batch_order() const {
    return {.epoch = epoch_steps_,
            .global_batch = setup_.global_batch,
            .order = {true, setup_.seed},
            .mixes = setup_.augment.mixes(),
            .logical = batch_split_.logical,
            .audit_every = setup_.audit_every};
}

TrainingPrograms::Runnable TrainingPrograms::prepare(const Stage& stage, int64_t samples) {
    Runnable r{.samples = samples};
    const auto prepare_share = [&](const Share& share) {
        const ProgramSpec spec{.batch = int(share.count),
                               .global_batch = samples,
                               .first = share.first,
                               .training = true,
                               .mixes = setup_.augment.mixes()};
        return prepare_program(*stage.graph, exact_ ? backend_.lane(0) : backend_, spec);
    };
    const bool audits = setup_.audit_every > 0;
    r.prepared = prepare_parts(batch_split_, comm_.rank(), samples, prepare_share, audits);
    for (int distance = 1; distance <= audited_ranks(); ++distance)
        r.audited.push_back(prepare_parts(batch_split_, rank_before(distance), samples, prepare_share, audits));
    const auto make_room = [this](const std::vector<PreparedProgram>& share) {
        for (const PreparedProgram& prepared : share) arena_bytes_ = std::max(arena_bytes_, prepared.memory.bytes);
    };
    make_room(r.prepared);
    for (const std::vector<PreparedProgram>& share : r.audited) make_room(share);
    return r;
}

void TrainingPrograms::prepare() {
    prepare_stages();
    for (Stage& stage : stages_)
        for (int64_t samples : {epoch_steps_.full_steps > 0 ? setup_.global_batch : 0, epoch_steps_.tail})
            if (samples > 0) stage.programs.push_back(prepare(stage, samples));
    supply_ = train_.supply(comm_, backend_, batch_order(), [this](auto... image) { return lines_shown(image...); });
    if (!test_) return;
    evaluator_ = std::make_unique<Evaluator>(comm_, backend_, graph_, state_, *test_, setup_.preprocessing,
                                             setup_.global_batch, setup_.tta, setup_.logical_ranks);
    arena_bytes_ = std::max(arena_bytes_, evaluator_->arena_bytes());
}

void TrainingPrograms::build() {
    const Doing doing(comm_.activity(), "building the programs");
    for (int lane = 0; lane < arenas(); ++lane) arenas_.push_back(backend_.allocate(arena_bytes_));
    if (setup_.audit_every > 0) audit_.emplace(backend_, state_, exact_.get(), arenas());
    counters_ = backend_.allocate(sizeof(Counters));
    // Limits how far the host runs ahead: otherwise it would learn late of a request to stop, and
    // would look stalled.
    constexpr int64_t most_ahead = 32, intervals = 2;
    records_.emplace(backend_,
                     backend_.facts().synchronous ? 1 : std::min(setup_.log_interval, most_ahead / intervals));
    if (supply_)
        supply_->build();
    else
        order_ = backend_.allocate(sizeof(int32_t) * train_.info().images);
    learning_rates_ = backend_.allocate(sizeof(float) * total_steps_);
    if (setup_.look_ahead > 0) decays_ = backend_.allocate(sizeof(float) * size_t(total_steps_ + 1));
    upload_rates(1);

    Update update = state_.update(setup_.optimizer, param_rules(setup_, epoch_steps_.steps()));
    update.learning_rates = static_cast<float*>(learning_rates_.get());
    update.counters = counters();
    update.latch = setup_.on_nan != OnNan::skip;
    for (Stage& stage : stages_)
        for (Runnable& r : stage.programs) build(r, stage, update);
    if (evaluator_) evaluator_->build({arenas_.begin(), arenas_.begin() + lanes()});
}

/// Returns the augmentation of a stage. Smaller images are resized in proportion, so that they show
/// the same part of the picture.
Augment TrainingPrograms::augment_for(const Stage& stage) const {
    const Graph& graph = *stage.graph;
    Augment augment = setup_.augment;
    if (stage.resized && augment.crop == Crop::shifted) {
        augment.crop = Crop::centre;
        augment.short_side = std::min(train_.info().height, train_.info().width);
    }
    const int64_t side = graph.values[graph.input].h, last = graph_.values[graph_.input].h;
    augment.short_side = int((augment.short_side * side + last - 1) / last);
    return augment;
}

std::vector<Program> TrainingPrograms::parts_of(const Runnable& r, const Stage& stage, int distance) {
    std::vector<Program> parts;
    const size_t count = (distance == 0 ? r.prepared : r.audited[size_t(distance) - 1]).size();
    for (size_t i = 0; i < count; ++i) parts.push_back(part_of(r, stage, distance, i));
    return parts;
}

Program TrainingPrograms::part_of(const Runnable& r, const Stage& stage, int distance, size_t index) {
    const bool own = distance == 0;
    const std::vector<PreparedProgram>& share = own ? r.prepared : r.audited[size_t(distance) - 1];
    const PreparedProgram& prepared = share[index];
    const size_t lane = index % size_t(lanes_for(share.size()));
    Backend& backend = exact_ ? backend_.lane(int(lane)) : backend_;
    ProgramContext context{*stage.graph, backend,        state_,     arenas_[lane],
                           setup_.seed,  setup_.sync_bn, counters(), own && index == 0 ? &requests_ : nullptr};
    std::optional<LogicalRank> logical;
    if (own && exact_) context.logical = &logical.emplace(exact_->part(int(index)));
    std::optional<Checksum> checksum;
    if (audit_)
        context.checksum = &checksum.emplace(Checksum{.values = {},
                                                      .index = 0,
                                                      .sum = audit_->share(distance),
                                                      .counters = counters(),
                                                      .every = own ? setup_.audit_every : 1});
    std::optional<Operands> operands;
    if (!own) context.operands = &operands.emplace(audit_->operands(int(lane)));
    context.local = !own;
    int64_t staged_before = 0;  // rows of the staged batch before this share
    for (int nearer = 0; nearer < distance % comm_.size(); ++nearer)
        staged_before += batch_order().rows_of(r.samples, rank_before(nearer), comm_.size()).count;
    return lower(context, prepared, buckets_, [&](Program& p) {
        Gather batch = train_.batches(setup_.preprocessing, counters(), prepared.spec.first, supply_.get());
        batch.staged_first = staged_before + prepared.spec.first - share.front().spec.first;
        batch.begins_step = own && index == 0;
        batch.order = static_cast<int32_t*>(order_.get());
        batch.x = p.input;
        batch.y = p.labels;
        batch.mixed = p.mixed;
        batch.global_batch = prepared.spec.global_batch;
        batch.augment = augment_for(stage);
        batch.seed = setup_.seed;
        backend.gather(batch, p.tape);
    });
}

void TrainingPrograms::build(Runnable& r, const Stage& stage, const Update& update) {
    r.parts = parts_of(r, stage, 0);
    if (audit_) audit_->clear(r.tape);
    if (exact_)
        exact_->append(tapes_of(r.parts), r.tape);
    else
        r.tape.append(r.parts.front().tape);
    r.ending = {};
    backend_.update(update, r.ending);
    for (int replica = 0; setup_.look_ahead > 0 && replica < state_.replicas(); ++replica) {
        LookAhead average = state_.look_ahead(update, replica);
        if (replica > 0) average.count = 0, average.segments.clear();  // all replicas have the same weights
        average.decays = static_cast<float*>(decays_.get());
        average.counters = counters();
        if (update.latch) average.stats = state_.stats();
        backend_.look_ahead(average, r.ending);
    }
    backend_.record({.stats = state_.stats(),
                     .own = state_.own_stats(),
                     .learning_rates = update.learning_rates,
                     .ring = records_->data(),
                     .ring_size = records_->size(),
                     .counters = counters(),
                     .batch = batch_split_.samples_of(r.samples, comm_.rank()).count,
                     .global_batch = r.samples,
                     .own_count = state_.replicas()},
                    r.ending);
    const bool at_once = !exact_ && !backend_.facts().synchronous;
    if (at_once) {
        Tape whole = r.tape;
        whole.append(r.ending);
        r.whole = backend_.finish(std::move(whole));
    }
    if (!at_once || audit_) {
        r.gradients = backend_.finish(r.tape);
        r.update = backend_.finish(r.ending);
    }
    build_audits(r, stage);
}

/// Builds programs that compute the shares of the ranks before this one. They all-reduce no
/// gradients.
void TrainingPrograms::build_audits(Runnable& r, const Stage& stage) {
    for (int distance = 1; distance <= audited_ranks(); ++distance) {
        Tape tape;
        audit_->begin(distance, counters(), tape);
        const std::vector<Tape> tapes = tapes_of(parts_of(r, stage, distance));
        if (exact_)
            backend_.side_by_side(tapes, tape);
        else
            tape.append(tapes.front());
        r.audits.push_back(backend_.finish(std::move(tape)));
    }
}

void TrainingPrograms::initialise(const ParamValues& given) {
    state_.initialise(graph_, backend_, setup_.seed);
    for (size_t id = 0; id < graph_.params.size(); ++id)
        if (graph_.params[id].init.kind == Init::whitening)
            set_whitening_filters(comm_, backend_, train_, setup_.preprocessing, graph_.params[id],
                                  state_.params()[id]);
    for (size_t id = 0; id < given.size(); ++id)
        if (!given[id].empty())
            backend_.upload(state_.params()[id].data, given[id].data(), given[id].size() * sizeof(float));
    std::vector<char> host;
    for (const Tensor& block : {state_.weights(), state_.running()}) {
        host.resize(block.bytes());
        backend_.download(host.data(), block.data, block.bytes());
        comm_.broadcast(host.data(), host.size());
        backend_.upload(block.data, host.data(), block.bytes());
    }
    for (int replica = 1; replica < state_.replicas(); ++replica)
        backend_.upload(state_.running(replica).data, host.data(), host.size());
    state_.start_look_ahead(backend_);
}

void TrainingPrograms::upload_rates(double factor) {
    std::vector<float> rates(static_cast<size_t>(total_steps_));
    for (int64_t s = 0; s < total_steps_; ++s)
        rates[s] = float(factor * learning_rate(setup_.schedule, s, epoch_steps_.steps(), total_steps_));
    backend_.upload(learning_rates_.get(), rates.data(), rates.size() * sizeof(float));
    if (setup_.look_ahead <= 0) return;
    const std::vector<float> decays = look_ahead_decays(setup_.look_ahead, setup_.look_ahead_decay, total_steps_);
    backend_.upload(decays_.get(), decays.data(), decays.size() * sizeof(float));
}

const TrainingPrograms::Stage& TrainingPrograms::stage_of(int64_t step) const {
    return *std::find_if(stages_.begin(), stages_.end(), [&](const Stage& s) { return step < s.until; });
}

const TrainingPrograms::Runnable& TrainingPrograms::program_of(int64_t step) const {
    const Stage& stage = stage_of(step);
    return step % epoch_steps_.steps() < epoch_steps_.full_steps ? stage.programs.front() : stage.programs.back();
}

Lines TrainingPrograms::lines_shown(int64_t epoch, int32_t sample, int height, int width) const {
    const Stage& stage = stage_of(epoch * epoch_steps_.steps());
    const Value& seen = stage.graph->values[stage.graph->input];
    return convoy::lines_shown(augment_for(stage), height, width, seen.h, seen.w, setup_.seed, uint32_t(epoch),
                               uint32_t(sample));
}

void TrainingPrograms::begin(int64_t step) {
    const int64_t epoch = step / epoch_steps_.steps();
    if (!supply_) {
        const std::vector<int32_t> order = permutation(train_.info().images, setup_.seed, uint32_t(epoch));
        backend_.upload(order_.get(), order.data(), order.size() * sizeof(int32_t));
    }
    const Counters counters{step, epoch, step % epoch_steps_.steps() * setup_.global_batch};
    backend_.upload(counters_.get(), &counters, sizeof counters);
}

void TrainingPrograms::supply_batch(int64_t step) {
    if (!supply_) return;
    if (supply_->step() != step) supply_->begin(step, total_steps_);
    supply_->next();
}

std::optional<AuditVerdict> TrainingPrograms::run(const Runnable& program, int64_t step, StateSnapshot& snapshot) {
    supply_batch(step);
    const bool audited = is_audited(step, setup_.audit_every);
    if (program.whole && !audited) {
        program.whole();
        return std::nullopt;
    }
    program.gradients();
    if (exact_ && exact_->redo()) {  // a gradient did not fit; the exponents are now those that the step reported
        supply_batch(step);
        program.gradients();
        require(!exact_->redo(), "a step that is done again has the same gradients");
    }
    std::optional<AuditVerdict> verdict;
    if (audited) verdict = audit(program);
    const auto writing = snapshot.begin_change();  // until then another thread may read the weights
    program.update();
    return verdict;
}

// All ranks have the same rows, so all of them vote or none does. The weights and the staged batch
// are still those of the step.
AuditVerdict TrainingPrograms::audit(const Runnable& program) {
    program.audits[0]();
    std::vector<AuditRow> rows = audit_->rows(comm_);
    const bool vote = program.audits.size() > 1 && disagree(rows);
    if (vote) {
        program.audits[1]();
        rows = audit_->rows(comm_);
    }
    return judge(rows, vote);
}

}  // namespace convoy
