#include "train/evaluator.h"

#include <algorithm>

#include "base/clock.h"
#include "plan/split.h"

namespace convoy {

std::vector<WeighedView> views_of(Tta tta, const Preprocessing& preprocessing) {
    if (tta == Tta::plain) return {{preprocessing.plain(), 1}};
    std::vector<WeighedView> views;
    const auto pair = [&](int shift, float weight) {
        for (const bool mirror : {false, true}) {
            Augment view = preprocessing.plain();
            view.reflect = view.fixed = true;
            view.dy = view.dx = shift;
            view.mirror = mirror;
            views.push_back({view, weight / 2});
        }
    };
    pair(0, tta == Tta::full ? 0.5f : 1.0f);
    if (tta == Tta::full) {
        pair(-1, 0.25f);
        pair(1, 0.25f);
    }
    return views;
}

void check_views(Tta tta, const SplitInfo& data, const Preprocessing& preprocessing) {
    if (tta == Tta::full && preprocessing.short_side > 0)
        fail(Exit::usage, "--tta full shifts images of the model's size, and these are resized; choose none or mirror");
    if (tta == Tta::full && std::min(data.height, data.width) < 2)
        fail(Exit::usage, "--tta full shifts images by a pixel, and these have only one; choose none or mirror");
    if (tta != Tta::plain && data.type == DType::f32)
        fail(Exit::usage, "--tta is for images, and this data set holds vectors; leave it out");
}

namespace {

/// Returns the graph without label smoothing, because `convoy evaluate` must compute the same loss,
/// and a model file does not record the smoothing.
Graph without_smoothing(Graph graph) {
    std::get<SoftmaxXent>(graph.ops.back()).label_smoothing = 0;
    return graph;
}

}  // namespace

Evaluator::Evaluator(Comm& comm, Backend& backend, const Graph& graph, const State& state, const DataSet& data,
                     Preprocessing preprocessing, int64_t global_batch, Tta tta, int64_t logical)
    : comm_(comm),
      backend_(backend),
      batch_split_{logical > 0 ? logical : comm.size(), comm.size()},
      logical_(batch_split_.logical_of(comm.rank())),
      in_lanes_(logical > 0),
      graph_(without_smoothing(graph)),
      state_(state),
      data_(data),
      preprocessing_(std::move(preprocessing)),
      views_(views_of(tta, preprocessing_)) {
    const EpochSteps epoch = steps_of_epoch(data.info().images, global_batch, false);
    full_steps_ = epoch.full_steps;
    steps_ = epoch.steps();
    const auto count = size_t(logical_.count);
    counters_ = backend.allocate(sizeof(Counters) * count);
    totals_ = backend.allocate(sizeof(EvalTotals) * count);
    stats_ = backend.allocate(sizeof(float) * stats_elements * count);
    Backend& lane = in_lanes_ ? backend.lane(0) : backend;
    for (int64_t samples : {full_steps_ > 0 ? global_batch : 0, epoch.tail}) {
        if (samples == 0) continue;
        passes_.push_back({.prepared = prepare_parts(batch_split_, comm.rank(), samples, [&](const Share& share) {
                               return prepare_program(graph_, lane, {int(share.count), samples, share.first, false});
                           })});
    }
    supply_ = data.supply(comm, backend, {epoch, global_batch, {}, false, logical},
                          [this](int64_t, int32_t, int height, int width) {
                              const Value& seen = graph_.values[graph_.input];  // all views read the same lines
                              return lines_shown(views_.front().view, height, width, seen.h, seen.w, 0, 0, 0);
                          });
}

size_t Evaluator::arena_bytes() const {
    size_t most = 0;
    for (const Pass& pass : passes_)
        for (const PreparedProgram& prepared : pass.prepared) most = std::max(most, prepared.memory.bytes);
    return most;
}

void Evaluator::build(std::vector<Buffer> arenas) {
    arenas_ = std::move(arenas);
    if (supply_) supply_->build();
    for (Pass& pass : passes_) {
        std::vector<Tape> tapes;
        for (int i = 0; i < int(pass.prepared.size()); ++i)
            tapes.push_back(
                tape_of(pass.prepared[i], i, in_lanes_ ? backend_.lane(i % int(arenas_.size())) : backend_));
        Tape tape;
        in_lanes_ ? backend_.side_by_side(tapes, tape) : tape.append(tapes.front());
        pass.run = backend_.finish(std::move(tape));
    }
}

Tape Evaluator::tape_of(const PreparedProgram& prepared, int logical, Backend& backend) {
    auto* const counters = static_cast<Counters*>(counters_.get()) + logical;
    Operands operands = state_.operands();
    operands.stats =
        reinterpret_cast<BatchStats*>(static_cast<float*>(stats_.get()) + stats_elements * size_t(logical));
    ProgramContext context{graph_, backend, state_, arenas_[size_t(logical) % arenas_.size()], 0, false, counters};
    context.operands = &operands;
    const Shape logits{prepared.spec.batch, 1, 1, graph_.classes};
    sums_.push_back(backend_.allocate(logits.count() * sizeof(float)));
    Tape tape;
    for (size_t v = 0; v < views_.size(); ++v) {
        if (views_.size() > 1)
            context.view =
                View{{sums_.back().get(), logits, DType::f32}, views_[v].weight, v == 0, v + 1 == views_.size()};
        Program program = lower(context, prepared, {}, [&](Program& p) {
            Gather batch = data_.batches(preprocessing_, counters, prepared.spec.first, supply_.get());
            batch.staged_first =
                prepared.spec.first - batch_split_.samples_of(prepared.spec.global_batch, comm_.rank()).first;
            batch.x = p.input;
            batch.y = p.labels;
            batch.augment = views_[v].view;
            backend.gather(batch, p.tape);
        });
        tape.append(program.tape);
    }
    backend.accumulate(operands.stats, static_cast<EvalTotals*>(totals_.get()) + logical, prepared.spec.batch, counters,
                       prepared.spec.global_batch, tape);
    return tape;
}

/// Returns the totals of all ranks. Adds them in the order of logical ranks, so that the loss does
/// not depend on the number of ranks.
EvalTotals Evaluator::totals_of_all() {
    std::vector<EvalTotals> mine(size_t(logical_.count));
    backend_.download(mine.data(), totals_.get(), mine.size() * sizeof(EvalTotals));
    std::vector<double> row;
    for (const EvalTotals& t : mine)
        row.insert(row.end(), {t.loss_sum, double(t.correct), double(t.top5), double(t.images)});
    constexpr size_t columns = 4;
    const auto most = size_t(batch_split_.logical_of(0).count);  // no rank has more than rank 0
    row.resize(most * columns);
    const std::vector<double> rows = comm_.gather_all(row);
    EvalTotals all;
    for (size_t i = 0; i < rows.size(); i += columns) {
        all.loss_sum += rows[i];
        all.correct += int64_t(rows[i + 1]);
        all.top5 += int64_t(rows[i + 2]);
        all.images += int64_t(rows[i + 3]);
    }
    return all;
}

std::optional<EvalResult> Evaluator::run(const std::function<bool()>& stop) {
    const auto start = Clock::now();
    const Counters zero_counters;
    for (int64_t i = 0; i < logical_.count; ++i) {
        const EvalTotals zero_totals;
        backend_.upload(static_cast<Counters*>(counters_.get()) + i, &zero_counters, sizeof zero_counters);
        backend_.upload(static_cast<EvalTotals*>(totals_.get()) + i, &zero_totals, sizeof zero_totals);
    }
    if (supply_) supply_->begin(0, steps_);
    const Phase phase(comm_.activity(), "evaluation", "batch", 0, steps_);
    for (int64_t step = 0; step < steps_; ++step) {
        comm_.activity().advance(step);
        if (stop && comm_.max(int64_t(stop())) > 0) return std::nullopt;
        if (supply_) supply_->next();
        (step < full_steps_ ? passes_.front() : passes_.back()).run();
    }
    backend_.synchronize();
    const EvalTotals totals = totals_of_all();

    EvalResult result;
    result.images = totals.images;
    result.correct = totals.correct;
    result.loss = totals.loss_sum / double(result.images);
    result.accuracy = double(result.correct) / double(result.images);
    result.top5_accuracy = double(totals.top5) / double(result.images);
    result.seconds = seconds_since(start);
    require(result.images == data_.info().images, "an evaluation sees every image once");
    return result;
}

}  // namespace convoy
