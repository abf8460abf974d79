#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "train/not_finite.h"
#include "train/running_statistics.h"

namespace convoy {
namespace {

constexpr int64_t most_skipped_in_a_row = 16;
constexpr double rollback_factor = 0.5, least_rate_factor = 1.0 / 256;

/// Collective. Restores TensorMemory::kept_state(), unless another kind of backend wrote it.
void restore_kept_state(Comm& comm, Backend& backend, Checkpoint& from) {
    const Tensor kept = backend.kept_state();
    int64_t fits = kept.count() > 0 && from.backend.size() == kept.count();
    comm.broadcast(&fits, sizeof fits);
    from.backend.resize(kept.count());
    if (!fits) return;
    comm.broadcast(from.backend.data(), kept.bytes());
    backend.upload(kept.data, from.backend.data(), kept.bytes());
}

}  // namespace

Trainer::Trainer(Comm& comm, Backend& backend, const Graph& graph, const DataSet& train, const DataSet* test,
                 const TrainSetup& setup, Requests& requests, std::vector<EarlierGraph> earlier)
    : comm_(comm),
      backend_(backend),
      setup_(setup),
      programs_(comm, backend, graph, train, test, setup_, requests, std::move(earlier)),
      clock_(setup_, requests, comm.root(), backend.facts().synchronous),
      snapshot_(backend, programs_.state()) {}

void Trainer::restore(Checkpoint from) {
    snapshot_.drop();
    const auto writing = snapshot_.begin_change();
    const State& state = programs_.state();
    const std::pair<std::vector<float>*, Tensor> blocks[] = {{&from.weights, state.weights()},
                                                             {&from.optimizer, state.optimizer_block()}};
    for (const auto& [values, block] : blocks) {
        values->resize(block.count());
        comm_.broadcast(values->data(), block.bytes());
        backend_.upload(block.data, values->data(), block.bytes());
    }
    restore_running(comm_, backend_, state, programs_.batch_split(), std::move(from.running), from.ranks);
    restore_kept_state(comm_, backend_, from);
    if (LogicalRanks* const exact = programs_.exact()) {
        from.exponents.resize(state.counts().size(), exponent::of_zero);
        comm_.broadcast(from.exponents.data(), from.exponents.size() * sizeof(int32_t));
        exact->set_exponents(from.exponents);
    }
    now_ = from;
    comm_.broadcast(&now_, sizeof now_);
    averaged_step_ = -1;
    clock_.set_saved(now_.step, now_.evaluation_due);
    programs_.upload_rates(now_.rate_factor);
    require(now_.step <= programs_.total_steps(), "a run ends after the checkpoint that it resumes from");
}

void Trainer::run(TrainListener& listener) {
    const Phase phase(comm_.activity(), "training", "step", now_.step, programs_.total_steps());
    clock_.request_snapshot();
    sound_step_ = now_.step;
    if (comm_.max(int64_t(clock_.stop_requested())) > 0) {  // requested before the first step
        clock_.stop();
        take_checkpoint(listener);
        return;
    }
    if (setup_.on_nan == OnNan::rollback && !clock_.has_saved()) take_checkpoint(listener);  // to roll back to
    if (now_.evaluation_due) end_epoch(listener);
    while (now_.step < programs_.total_steps() && !stopped()) {
        run_epoch(listener);
        if (now_.evaluation_due && !stopped()) end_epoch(listener);
    }
    if (!stopped()) average_running_statistics();  // for the model file, unless an evaluation has done it
}

/// An epoch in progress.
struct Trainer::EpochRun {
    EpochSummary summary;
    int64_t first, last;  ///< steps of the epoch; first is not 0 if the run was resumed within it
    std::vector<StepRecord> unreported{};
    Clock::time_point start = Clock::now(), reported = start;

    void add(const std::vector<StepRecord>& records) {
        for (const StepRecord& r : records) summary.add(r);
        unreported.insert(unreported.end(), records.begin(), records.end());
    }
    /// True if the listener must get the records now; `step`: steps of the epoch that were read.
    bool report_due(int64_t step, int64_t log_interval) const {
        constexpr double longest_silence = 2;  // seconds
        return int64_t(unreported.size()) >= log_interval || (step - first) % log_interval == 0 ||
               seconds_since(reported) >= longest_silence;
    }
};

void Trainer::run_epoch(TrainListener& listener) {
    const int64_t steps = programs_.steps_per_epoch(), total = programs_.total_steps();
    const int64_t epoch = now_.step / steps, first = now_.step % steps;
    const auto range = backend_.range("epoch " + std::to_string(epoch + 1));
    EpochRun e{.summary = {.epoch = epoch + 1}, .first = first, .last = std::min(steps, total - now_.step + first)};
    RecordRing& ring = programs_.records();
    ring.begin(now_.step);
    programs_.begin(now_.step);
    if (clock_.snapshotting()) take_snapshot();
    for (int64_t i = first; i < e.last && !stopped(); ++i) {
        const std::optional<AuditVerdict> audit = programs_.run(programs_.program_of(now_.step), now_.step, snapshot_);
        comm_.activity().set_step(++now_.step);
        comm_.activity().advance(now_.step);
        if (audit) report_audit(*audit, listener);
        const bool last = i + 1 == e.last;
        const bool all = last || clock_.checkpoint_step(now_.step) || listener.at_once(now_.step);
        if (!ring.due(now_.step) && !all) continue;
        const bool late = !programs_.exact() && !backend_.facts().synchronous && !clock_.snapshotting();
        const std::vector<StepRecord> records = ring.look(now_.step, late && !all);
        if (records.empty()) continue;  // the first read, if records are read one interval late
        e.add(records);
        const RunClock::Requested requested = clock_.take_in(records, now_.step);
        // Records must be reported before a checkpoint is taken or a snapshot is made.
        if (e.report_due(ring.steps_read() % steps, setup_.log_interval) || last || requested.checkpoint ||
            requested.skipped || requested.snapshot || stopped()) {
            listener.on_steps(epoch + 1, std::exchange(e.unreported, {}));
            e.reported = Clock::now();
        }
        if (requested.skipped && handle_skipped(records, listener)) return;
        if (!requested.skipped) skipped_in_a_row_ = 0;
        const double seconds_a_step = records.back().step_seconds;
        clock_.watch(double((late ? 3 : 2) * ring.interval() + 1) * seconds_a_step);
        if (clock_.watch_length(double(ring.interval()) * seconds_a_step)) snapshot_.drop();
        clock_.set_snapshotting(requested.snapshot);
        if (last) break;  // the end of the epoch is handled first
        if (requested.checkpoint || stopped()) take_checkpoint(listener);
        if (requested.snapshot && !stopped()) take_snapshot();
    }
    if (now_.step == total || now_.step % steps == 0) {
        e.summary.seconds = seconds_since(e.start);
        listener.on_epoch(e.summary);
        now_.evaluation_due = true;
        if (stopped()) take_checkpoint(listener);
    }
}

void Trainer::report_audit(const AuditVerdict& verdict, TrainListener& listener) {
    if (verdict.clean()) {
        sound_step_ = now_.step - 1;  // the update of this step comes after its audit
        return listener.on_audit({.step = now_.step});
    }
    const std::vector<std::string> ranks = comm_.gather_all("rank " + std::to_string(comm_.rank()) + " on " +
                                                            comm_.host() + " (" + backend_.facts().device + ")");
    const std::string advice = sound_step_ > 0
                                   ? "resume from a checkpoint of step " + std::to_string(sound_step_) + " or before"
                                   : "begin again";
    const AuditReport report{.step = now_.step,
                             .difference = "audit of step " + std::to_string(now_.step) + ": " +
                                           text_of(verdict, ranks) + "; test with 'convoy accept', and " + advice,
                             .ends = setup_.on_audit == OnAudit::stop};
    listener.on_audit(report);
    if (report.ends) fail_everywhere(Exit::not_accepted, report.difference);
}

void Trainer::end_epoch(TrainListener& listener) {
    const int64_t epoch = (now_.step - 1) / programs_.steps_per_epoch();
    const bool last = now_.step >= programs_.total_steps();
    const bool wanted = last || (setup_.eval_every > 0 && (epoch + 1) % setup_.eval_every == 0);
    const double best = now_.best_accuracy;
    if (wanted && programs_.evaluator()) evaluate(epoch, listener);
    if (!stopped()) now_.evaluation_due = false;
    const bool better = now_.best_accuracy > best, at_end = setup_.checkpoint_at_end && (last || better);
    if (comm_.max(int64_t(clock_.checkpoint_due(now_.step, epoch))) > 0 || stopped() || at_end)
        take_checkpoint(listener);
    else if (better)
        hand_over(true, listener);
}

void Trainer::evaluate(int64_t epoch, TrainListener& listener) {
    const auto range = backend_.range("evaluation");
    average_running_statistics();
    take_snapshot();
    const std::optional<EvalResult> result = programs_.evaluator()->run([this] {
        clock_.watch(0);
        return clock_.stop_requested();
    });
    if (!result) {
        clock_.stop();
        return;
    }
    now_.last_accuracy = result->accuracy;
    const bool best = now_.last_accuracy > now_.best_accuracy;
    if (best) {
        now_.best_accuracy = now_.last_accuracy;
        now_.best_step = now_.step;
    }
    listener.on_eval(epoch + 1, now_.step, *result, best);
    if (!std::isfinite(result->loss) && setup_.on_nan == OnNan::stop)
        fail_everywhere(Exit::not_finite, "the test loss is not finite after step " + std::to_string(now_.step) +
                                              "; lower --lr or add --warmup-epochs");
}

void Trainer::average_running_statistics() {
    const BatchSplit& batch_split = programs_.batch_split();
    if (setup_.sync_bn || batch_split.logical == 1 || averaged_step_ == now_.step) return;
    averaged_step_ = now_.step;
    average_running(comm_, backend_, programs_.state(), batch_split, programs_.exact() != nullptr);
}

Checkpoint Trainer::position() {
    Checkpoint c;
    static_cast<TrainingProgress&>(c) = now_;
    c.epoch = now_.step / programs_.steps_per_epoch();
    c.offset = now_.step % programs_.steps_per_epoch() * setup_.global_batch;
    c.ranks = programs_.batch_split().logical;
    if (comm_.root()) c.tuning = backend_.tuning();
    if (LogicalRanks* const exact = programs_.exact()) c.exponents = exact->exponents();
    c.running = gather_running(comm_, backend_, programs_.state(), programs_.batch_split());
    return c;
}

void Trainer::take_snapshot() {
    clock_.note_snapshot();
    Checkpoint here = position();
    if (comm_.root()) snapshot_.take(std::move(here));
}

void Trainer::take_checkpoint(TrainListener& listener) {
    if (clock_.begin_checkpoint(now_.step, now_.evaluation_due)) hand_over(false, listener);
}

void Trainer::hand_over(bool only_model, TrainListener& listener) {
    listener.before_checkpoint();
    Checkpoint c = position();
    c.only_model = only_model;
    if (comm_.root()) copy_out(backend_, programs_.state(), c);
    listener.on_checkpoint(std::move(c));
}

// A record says `skipped` if the backend skipped the update of its step, on all ranks.
bool Trainer::handle_skipped(const std::vector<StepRecord>& records, TrainListener& listener) {
    const auto failed = std::find_if(records.begin(), records.end(), [](const StepRecord& r) { return r.skipped; });
    if (setup_.on_nan == OnNan::stop) stop_not_finite(*failed);
    if (setup_.on_nan == OnNan::rollback) {
        if (!roll_back(failed->step, listener)) stop_not_finite(*failed);
        return true;
    }
    for (const StepRecord& r : records) {
        skipped_in_a_row_ = r.skipped ? skipped_in_a_row_ + 1 : 0;
        if (skipped_in_a_row_ == most_skipped_in_a_row) stop_not_finite(r);
    }
    return false;
}

bool Trainer::roll_back(int64_t failed, TrainListener& listener) {
    const double factor = now_.rate_factor * rollback_factor;
    std::optional<Checkpoint> back;
    if (factor >= least_rate_factor) back = listener.on_rollback(failed);
    if (comm_.max(int64_t(back.has_value())) == 0) return false;
    restore(back ? std::move(*back) : Checkpoint());
    now_.rate_factor = factor;
    programs_.upload_rates(factor);
    const BatchStats unlatched;
    backend_.upload(programs_.state().stats(), &unlatched, sizeof unlatched);
    clock_.set_saved(-1, false);  // the checkpoint has the old rate, so another is needed
    return true;
}

void Trainer::stop_not_finite(const StepRecord& r) {
    std::ostringstream message;
    message << "the loss ";
    if (std::isfinite(r.loss))
        message << "is finite at step " << r.step << ", but a gradient is not";
    else
        message << "is " << (std::isnan(r.loss) ? "nan" : "infinite") << " at step " << r.step;
    message << " (learning rate " << r.learning_rate << "); ";
    if (const std::string weight = weight_not_finite(comm_, backend_, programs_.state()); !weight.empty()) {
        message << "not finite even before it: " << weight;
    } else {
        now_.step = r.step - 1;
        message << output_not_finite(comm_, backend_, programs_, now_.step);
    }
    message << "; lower --lr, add --warmup-epochs, or choose --on-nan skip or rollback";
    // Loss and gradients were all-reduced, so all ranks come here.
    fail_everywhere(Exit::not_finite, message.str());
}

}  // namespace convoy
