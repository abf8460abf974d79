// Writes the rows and attributes of a run's metrics. recorder_files.cpp handles checkpoints.
#include "run/recorder.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "base/version.h"

namespace convoy {

void add_attributes(Metrics& metrics, const RunAttributes& run) {
    metrics.run_attribute("command_line", run.command_line);
    metrics.run_attribute("configuration", config_text(run.configuration));
    metrics.run_attribute("version", std::string(version));
    metrics.run_attribute("commit", std::string(commit()));
    metrics.run_attribute("ranks", run.ranks);
    metrics.run_attribute("device kind", run.device_kind);
    for (const auto& [name, value] : run.identity) metrics.run_attribute(name, value);
    for (const auto& [library, text] : run.versions) metrics.run_attribute("version_" + library, text);
    for (const auto& [name, text] : run.environment) metrics.run_attribute("environment_" + name, text);
}

TrainRow row_of(int64_t epoch, const StepRecord& r) {
    return {.step = r.step,
            .epoch = epoch,
            .loss = r.loss,
            .accuracy = r.accuracy,
            .learning_rate = r.learning_rate,
            .step_seconds = r.step_seconds,
            .data_seconds = r.data_seconds,
            .comm_exposed_seconds = r.comm_exposed_seconds,
            .top5_accuracy = r.top5_accuracy};
}

namespace {

/// Returns changed options as "lr = 0.1 -> 0.05, epochs = 10 -> 20"; empty if there are none.
std::string changes(const std::string& before, const ConfigPairs& now) {
    std::map<std::string, std::string> old;
    for (const auto& [key, value] : config_pairs(before)) old[key] = value;
    const auto shown = [](const std::string& value) { return value.empty() ? "(none)" : value; };
    std::string text;
    for (const auto& [key, value] : now)
        if (const std::string& a = old[key]; a != value)
            text += (text.empty() ? "" : ", ") + key + " = " + shown(a) + " -> " + shown(value);
    return text;
}

}  // namespace

std::string batch_split_text(const std::vector<RankRow>& ranks) {
    const auto span = [](int64_t first, int64_t last) {
        return std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
    };
    std::string text;
    for (size_t first = 0, end = 0; first < ranks.size(); first = end) {
        while (end < ranks.size() && ranks[end].host == ranks[first].host) ++end;
        const RankRow &a = ranks[first], &b = ranks[end - 1];
        text += (text.empty() ? "logical ranks " : ", ") +
                span(a.first_logical_rank, b.first_logical_rank + b.logical_ranks - 1) +
                (a.rank == b.rank ? " on rank " : " on ranks ") + span(a.rank, b.rank) + " (" + a.host + ")";
    }
    return text;
}

Recorder::Recorder(Comm& comm, Backend& backend, const State& state, RunObserver& observer, RunDescription run)
    : comm_(comm), backend_(backend), state_(state), observer_(observer), run_(std::move(run)) {}

void Recorder::open_metrics(const Trainer& trainer) {
    total_steps_ = trainer.programs().total_steps();
    steps_per_epoch_ = trainer.programs().steps_per_epoch();
    const int64_t step = trainer.progress().step;
    std::optional<MetricsResume> resume;
    if (run_.place.continues) resume = MetricsResume{step, step / steps_per_epoch_, trainer.progress().evaluation_due};
    metrics_ = std::make_unique<Metrics>(files(), resume);
    leave_environment_out(configuration_before_.empty() ? metrics_->configuration_before() : configuration_before_);
    add_attributes(*metrics_, run_.attributes);
    metrics_->run_attribute("total_steps", total_steps_);
    metrics_->run_attribute("steps_per_epoch", steps_per_epoch_);
    metrics_->run_attribute("metrics_every", run_.metrics_every);
    if (trainer.progress().best_accuracy >= 0)
        note_best(trainer.progress().best_accuracy, trainer.progress().best_step);
    if (!resumed_from_.empty()) {
        const std::string changed = changes(redaction_(configuration_before_), run_.attributes.configuration);
        const std::string message = "from " + resumed_from_ + (changed.empty() ? "" : "; changed: " + changed);
        observer_.note("resume", "at step " + std::to_string(step) + " " + message);
        metrics_->event(step, "restart", message);
    } else {
        metrics_->event(0, "start", run_.attributes.command_line);
    }
    metrics_->publish();
    const RunWriter::Settings settings{.run_dir = files(), .keep = run_.keep, .publish_every = run_.publish_every};
    writer_ = std::make_unique<RunWriter>(settings, state_, *metrics_);
}

void Recorder::start(int64_t step) {
    sampler_.emplace(comm_.rank(), [this] { return backend_.sample(); }, run_.pace);
    const std::vector<std::string> hosts = comm_.gather_all(comm_.host()),
                                   devices = comm_.gather_all(backend_.facts().device),
                                   kinds = comm_.gather_all(backend_.facts().kind),
                                   places = comm_.gather_all(backend_.facts().placement);
    const std::vector<double> threads = comm_.gather_all(std::vector<double>{double(backend_.facts().threads)}),
                              logical = comm_.gather_all(std::vector<double>{double(state_.replicas())});
    std::vector<RankRow> ranks;
    int64_t first = 0;
    for (size_t r = 0; r < size_t(comm_.size()); ++r) {
        ranks.push_back({.rank = int64_t(r),
                         .host = hosts[r],
                         .device = devices[r],
                         .threads = int64_t(threads[r]),
                         .placement = places[r],
                         .first_logical_rank = first,
                         .logical_ranks = int64_t(logical[r])});
        first += ranks.back().logical_ranks;
    }
    observer_.on_start(ranks, step);
    if (!comm_.root()) return;
    if (run_.no_environment) {
        redaction_.add_hosts(hosts);
        metrics_->redact(redaction_);
        for (RankRow& row : ranks) row.host = redaction_(row.host);
    }
    for (const RankRow& row : ranks) metrics_->add(row);
    if (run_.logical) metrics_->event(step, "dealing", batch_split_text(ranks));
    note_kinds(step, kinds);
}

void Recorder::note_kinds(int64_t step, std::vector<std::string> kinds) {
    std::sort(kinds.begin(), kinds.end());
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    kinds_ = std::move(kinds);
    const std::string now = joined(kinds_, "; ");
    metrics_->run_attribute("kinds", now);
    if (!kinds_before_.empty() && kinds_before_ != kinds_)
        warn(step, "step " + std::to_string(step + 1) + " and later run on " + now + ", earlier steps ran on " +
                       joined(kinds_before_, "; ") +
                       ": the order of samples is kept, but results agree within rounding only, not bit for bit");
    else if (run_.logical && kinds_.size() > 1)
        warn(step, "ranks differ in kind (" + now +
                       "): on another number of ranks the order of samples is kept, but results agree within "
                       "rounding only, not bit for bit; --virtual-ranks needs processors or GPUs of one kind");
}

void Recorder::on_steps(int64_t epoch, const std::vector<StepRecord>& records) {
    if (comm_.root()) record_steps(epoch, records);
    observer_.on_steps(epoch, records);
}

void Recorder::record_steps(int64_t epoch, const std::vector<StepRecord>& records) {
    note_written();
    for (const StepRecord& r : records) {
        const bool kept = r.step % run_.metrics_every == 0 || r.step == total_steps_ || r.skipped;
        if (kept) metrics_->add(row_of(epoch, r));
    }
    for (const StepRecord& r : records)
        if (r.skipped) warn(r.step, "step " + std::to_string(r.step) + " is not finite: its update was left out");
}

/// Collective. Returns the rows of all ranks for the epoch.
std::vector<RankEpochRow> Recorder::gather_rank_epochs(const EpochSummary& e) {
    const double compute = e.step_seconds - e.data_seconds - e.comm_exposed_seconds;
    const std::vector<double> own = {e.data_seconds,       compute,      e.comm_exposed_seconds,
                                     double(e.own.images), e.own.loss(), e.own.accuracy()};
    const std::vector<double> all = comm_.gather_all(own);
    std::vector<RankEpochRow> rows;
    for (int r = 0; r < comm_.size(); ++r) {
        const double* of = &all[own.size() * size_t(r)];
        rows.push_back({.epoch = e.epoch,
                        .rank = r,
                        .data_seconds = of[0],
                        .compute_seconds = of[1],
                        .collective_wait_seconds = of[2],
                        .images = int64_t(of[3]),
                        .loss = of[4],
                        .accuracy = of[5]});
    }
    return rows;
}

void Recorder::on_epoch(const EpochSummary& e) {
    const std::vector<RankEpochRow> ranks = gather_rank_epochs(e);
    gather_system_rows();
    if (comm_.root()) {
        metrics_->add(EpochRow{.epoch = e.epoch,
                               .images = e.all.images,
                               .seconds = e.seconds,
                               .images_per_second = e.images_per_second(),
                               .loss = e.all.loss(),
                               .accuracy = e.all.accuracy(),
                               .top5_accuracy = e.all.top5_accuracy()});
        for (const RankEpochRow& row : ranks) metrics_->add(row);
    }
    observer_.on_epoch(e, ranks);
}

void Recorder::on_audit(const AuditReport& audit) {
    if (!comm_.root()) return;
    metrics_->run_attribute("audits", ++audits_);
    metrics_->run_attribute("audits_with_a_difference", differing_ += !audit.difference.empty());
    if (audit.difference.empty()) return;
    metrics_->event(audit.step, "audit", audit.difference);
    if (!audit.ends) observer_.warning(audit.difference);
}

void Recorder::gather_system_rows() {
    constexpr size_t width = 6;
    const std::vector<SystemRow> own = sampler_->take();
    // A rank with fewer rows than another appends NaN, because all must send the same number.
    std::vector<double> mine(size_t(comm_.max(int64_t(own.size()))) * width, NAN);
    for (size_t i = 0; i < own.size(); ++i) {
        const SystemRow& r = own[i];
        const double values[width] = {r.time,        r.utilisation, r.memory_bytes,
                                      r.power_watts, r.clock_hz,    r.temperature_celsius};
        std::copy_n(values, width, &mine[i * width]);
    }
    const std::vector<double> all = comm_.gather_all(mine);
    if (!comm_.root()) return;
    for (size_t at = 0; at < all.size(); at += width) {
        if (std::isnan(all[at])) continue;
        metrics_->add(SystemRow{.time = all[at],
                                .rank = int64_t(at / mine.size()),
                                .utilisation = all[at + 1],
                                .memory_bytes = all[at + 2],
                                .power_watts = all[at + 3],
                                .clock_hz = all[at + 4],
                                .temperature_celsius = all[at + 5]});
    }
}

void Recorder::on_eval(int64_t epoch, int64_t step, const EvalResult& e, bool best) {
    if (comm_.root()) {
        if (best) note_best(e.accuracy, step);
        metrics_->add(EvalRow{.step = step,
                              .epoch = epoch,
                              .loss = e.loss,
                              .accuracy = e.accuracy,
                              .seconds = e.seconds,
                              .top5_accuracy = e.top5_accuracy});
    }
    observer_.on_eval(epoch, e, best);
}

void Recorder::note_best(double accuracy, int64_t step) {
    metrics_->run_attribute("best_accuracy", accuracy);
    metrics_->run_attribute("best_epoch", (step - 1) / steps_per_epoch_ + 1);
}

}  // namespace convoy
