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

/// Smoothing is part of a training: a model file, which `convoy evaluate` measures, does not say
/// how its labels were smoothed.
Graph without_smoothing(Graph graph) {
    std::get<SoftmaxXent>(graph.ops.back()).label_smoothing = 0;
    return graph;
}

}  // namespace

Evaluator::Evaluator(Comm& comm, Backend& backend, const Graph& graph, const State& state, const DataSet& data,
                     Preprocessing preprocessing, int64_t global_batch, Tta tta)
    : comm_(comm),
      backend_(backend),
      graph_(without_smoothing(graph)),
      state_(state),
      data_(data),
      preprocessing_(std::move(preprocessing)),
      views_(views_of(tta, preprocessing_)) {
    const EpochPlan epoch = plan_epoch(data.info().images, global_batch, false);
    full_steps_ = epoch.full_steps;
    steps_ = epoch.steps();
    counters_ = backend.allocate(sizeof(Counters));
    totals_ = backend.allocate(sizeof(EvalTotals));
    for (int64_t samples : {full_steps_ > 0 ? global_batch : 0, epoch.tail}) {
        if (samples == 0) continue;
        const Share mine = share_of(samples, comm.size(), comm.rank());
        plans_.push_back(plan_program(graph_, backend, {int(mine.count), samples, mine.first, false}));
    }
    supply_ = data.supply(comm, backend, {epoch, global_batch, {}}, [this](int64_t, int32_t, int height, int width) {
        const Value& seen = graph_.values[graph_.input];  // all views of an image have the same lines
        return lines_shown(views_.front().view, height, width, seen.h, seen.w, 0, 0, 0);
    });
}

size_t Evaluator::arena_bytes() const { return std::max(plans_.front().memory.bytes, plans_.back().memory.bytes); }

void Evaluator::build(Buffer arena) {
    arena_ = std::move(arena);
    if (supply_) supply_->build();
    auto* counters = static_cast<Counters*>(counters_.get());
    ProgramContext context{graph_, backend_, state_, arena_, 0, false, counters};
    for (const ProgramPlan& plan : plans_) {
        const Shape logits{plan.spec.batch, 1, 1, graph_.classes};
        sums_.push_back(backend_.allocate(logits.count() * sizeof(float)));
        Tape tape;
        for (size_t v = 0; v < views_.size(); ++v) {
            if (views_.size() > 1)
                context.view =
                    View{{sums_.back().get(), logits, DType::f32}, views_[v].weight, v == 0, v + 1 == views_.size()};
            Program program = lower(context, plan, {}, [&](Program& p) {
                Gather batch = data_.batches(preprocessing_, counters, plan.spec.first, supply_.get());
                batch.x = p.input;
                batch.y = p.labels;
                batch.augment = views_[v].view;
                backend_.gather(batch, p.tape);
            });
            tape.append(program.tape);
        }
        backend_.accumulate(state_.stats(), static_cast<EvalTotals*>(totals_.get()), plan.spec.batch, counters,
                            plan.spec.global_batch, tape);
        runs_.push_back(backend_.finish(std::move(tape)));
    }
}

std::optional<EvalResult> Evaluator::run(const std::function<bool()>& stop) {
    const auto start = Clock::now();
    const Counters zero_counters;
    EvalTotals totals;
    backend_.upload(counters_.get(), &zero_counters, sizeof zero_counters);
    backend_.upload(totals_.get(), &totals, sizeof totals);
    if (supply_) supply_->begin(0, steps_);
    const Phase phase(comm_.activity(), "evaluation", "batch", 0, steps_);
    for (int64_t step = 0; step < steps_; ++step) {
        comm_.activity().advance(step);
        if (stop && comm_.max(int64_t(stop())) > 0) return std::nullopt;
        if (supply_) supply_->next();
        (step < full_steps_ ? runs_.front() : runs_.back())();
    }
    backend_.synchronize();
    backend_.download(&totals, totals_.get(), sizeof totals);

    EvalResult result;
    result.images = comm_.sum(totals.images);
    result.correct = comm_.sum(totals.correct);
    result.loss = comm_.sum(totals.loss_sum) / double(result.images);
    result.accuracy = double(result.correct) / double(result.images);
    result.top5_accuracy = double(comm_.sum(totals.top5)) / double(result.images);
    result.seconds = seconds_since(start);
    require(result.images == data_.info().images, "an evaluation sees every image once");
    return result;
}

}  // namespace convoy
