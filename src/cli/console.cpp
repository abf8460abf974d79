#include "cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/version.h"
#include "cli/project.h"
#include "cli/run_folder.h"
#include "cli/signals.h"
#include "cli/versions.h"

namespace convoy {
namespace {

/// printf shows the sign of a NaN, which means nothing.
double unsigned_nan(double v) { return std::isnan(v) ? std::abs(v) : v; }

}  // namespace

std::string config_text(const ConfigPairs& pairs) {
    std::string text;
    for (const auto& [key, value] : pairs) text += (value.empty() ? "# " : "") + key + " = " + value + "\n";
    return text;
}

Console::Console(Comm& comm, Backend& backend, const State& state, Terminal& terminal)
    : comm_(comm), backend_(backend), state_(state), terminal_(terminal) {}

namespace {

/// "lr = 0.1 -> 0.05, epochs = 10 -> 20"; empty if nothing changed.
std::string changes(const std::string& before, const ConfigPairs& now) {
    std::map<std::string, std::string> old;
    std::istringstream lines(before);
    for (std::string line; std::getline(lines, line);)
        if (const size_t equals = line.find(" = "); equals != std::string::npos && !line.starts_with('#'))
            old[line.substr(0, equals)] = line.substr(equals + 3);
    std::string text;
    for (const auto& [key, value] : now)
        if (const std::string& a = old[key]; a != value) text += (text.empty() ? "" : ", ") + key + " = " + (a.empty() ? "(none)" : a) + " -> " + (value.empty() ? "(none)" : value);
    return text;
}

}  // namespace

void Console::open_run(const RunDescription& run, const Trainer& trainer, const std::string& configuration_before) {
    run_ = run;
    first_step_ = trainer.step();
    std::optional<MetricsResume> resume;
    if (run.resume) resume = MetricsResume{first_step_, first_step_ / steps_per_epoch_, trainer.evaluation_due()};
    metrics_ = std::make_unique<Metrics>(run.dir, resume);
    std::string line = "convoy train";
    for (const std::string& arg : run.args) line += " " + arg;
    metrics_->run_attribute("command_line", line);
    metrics_->run_attribute("configuration", config_text(run.config));
    metrics_->run_attribute("version", std::string(version));
    metrics_->run_attribute("commit", std::string(commit()));
    metrics_->run_attribute("ranks", int64_t(comm_.size()));
    metrics_->run_attribute("total_steps", total_steps_);
    metrics_->run_attribute("steps_per_epoch", steps_per_epoch_);
    metrics_->run_attribute("metrics_every", metrics_every_);
    metrics_->run_attribute("device kind", std::string(backend_.synchronous() ? "cpu" : "gpu"));
    for (const auto& [name, value] : run.identity) metrics_->run_attribute(name, value);
    if (trainer.best_accuracy() >= 0) note_best(trainer.best_accuracy(), trainer.best_step());
    for (const auto& [library, text] : versions_of_run(backend_)) metrics_->run_attribute("version_" + library, text);
    if (run.resumed_from.empty()) {
        metrics_->event(0, "start", line);
    } else {
        const std::string changed = changes(configuration_before, run.config);
        const std::string message = "from " + run.resumed_from + (changed.empty() ? "" : "; changed: " + changed);
        terminal_.line(formatted("resume    at step %lld %s", (long long)first_step_, message.c_str()));
        metrics_->event(first_step_, "restart", message);
    }
    metrics_->publish();
    const RunWriter::Settings settings{.run_dir = run.dir, .keep = run.keep, .publish_every = run.publish_every};
    writer_ = std::make_unique<RunWriter>(settings, state_, *metrics_);
}

void Console::describe_ranks() {
    sampler_.emplace(comm_.rank(), [this] { return backend_.sample(); });
    const std::vector<std::string> hosts = comm_.gather_all(comm_.host()), devices = comm_.gather_all(backend_.device()),
                                   places = comm_.gather_all(backend_.placement());
    const std::vector<double> threads = comm_.gather_all(std::vector<double>{double(backend_.threads())});
    if (!comm_.root()) return;
    std::vector<std::string> lines;
    for (int r = 0; r < comm_.size(); ++r) {
        metrics_->add(RankRow{r, hosts[r], devices[r], int64_t(threads[r]), places[r]});
        lines.push_back(formatted("%s: %s, %d thread%s on %s", hosts[r].c_str(), devices[r].c_str(), int(threads[r]), threads[r] == 1 ? "" : "s", places[r].c_str()));
    }
    for (size_t r = 0, next = 0; r < lines.size(); r = next) {  // equal lines are said once
        for (next = r + 1; next < lines.size() && lines[next] == lines[r];) ++next;
        const std::string who = next == r + 1 ? formatted("rank %zu", r) : formatted("ranks %zu-%zu", r, next - 1);
        terminal_.line(formatted("%-9s %s%s", who.c_str(), lines[r].c_str(), next == r + 1 ? "" : ", each"));
    }
    training_started_ = Clock::now();
}

void Console::progress(int64_t epoch, const StepRecord& r) {
    const double left = seconds_since(training_started_) / double(r.step - first_step_) * double(total_steps_ - r.step);
    const std::string line = formatted("epoch %lld/%lld  step %lld/%lld  loss %.4f  accuracy %5.2f %%  rate %.4g  step %.1f ms  %s left",
                                    (long long)epoch, (long long)epochs_, (long long)r.step, (long long)total_steps_, unsigned_nan(r.loss), 100 * r.accuracy,
                                    r.learning_rate, 1e3 * r.step_seconds, duration_text(left).c_str());
    terminal_.status(line);
}

void Console::on_steps(int64_t epoch, const std::vector<StepRecord>& records) {
    if (!comm_.root()) return;
    note_written();
    for (const StepRecord& r : records) {
        const bool kept = r.step % metrics_every_ == 0 || r.step == total_steps_ || r.skipped;
        if (!kept) continue;
        metrics_->add(TrainRow{.step = r.step,
                               .epoch = epoch,
                               .loss = r.loss,
                               .accuracy = r.accuracy,
                               .learning_rate = r.learning_rate,
                               .step_seconds = r.step_seconds,
                               .data_seconds = r.data_seconds,
                               .comm_exposed_seconds = r.comm_exposed_seconds});
    }
    for (const StepRecord& r : records)
        if (r.skipped) warn(r.step, "step " + std::to_string(r.step) + " is not finite: its update was left out");
    progress(epoch, records.back());
}

void Console::on_epoch(const EpochSummary& e) {
    const double compute = e.step_seconds - e.data_seconds - e.comm_exposed_seconds;
    const std::vector<double> all = comm_.gather_all(std::vector<double>{e.data_seconds, compute, e.comm_exposed_seconds});
    gather_system_rows();
    if (!comm_.root()) return;
    const double rate = double(e.images) / e.seconds, ms_a_step = 1e3 / double(std::max<int64_t>(1, e.steps));
    metrics_->add(EpochRow{e.epoch, e.images, e.seconds, rate, e.loss(), e.accuracy()});
    for (int r = 0; r < comm_.size(); ++r)
        metrics_->add(RankEpochRow{e.epoch, r, all[3 * r], all[3 * r + 1], all[3 * r + 2]});
    terminal_.line(formatted("epoch %lld/%lld  train loss %.4f accuracy %.2f %%  %.1f s  %.0f images/s  step %.1f ms, %.1f without data wait, %.1f exposed communication",
                (long long)e.epoch, (long long)epochs_, unsigned_nan(e.loss()), 100 * e.accuracy(), e.seconds, rate, ms_a_step * e.step_seconds,
                ms_a_step * (e.step_seconds - e.data_seconds), ms_a_step * e.comm_exposed_seconds));
}

void Console::gather_system_rows() {
    constexpr size_t width = 5;
    const std::vector<SystemRow> own = sampler_->take();
    std::vector<double> mine(size_t(comm_.max(int64_t(own.size()))) * width, NAN);
    for (size_t i = 0; i < own.size(); ++i) {
        const SystemRow& r = own[i];
        std::copy_n(std::initializer_list<double>{r.time, r.utilisation, r.memory_bytes, r.power_watts, r.clock_hz}.begin(), width, &mine[i * width]);
    }
    const std::vector<double> all = comm_.gather_all(mine);
    if (!comm_.root()) return;
    for (size_t at = 0; at < all.size(); at += width)
        if (!std::isnan(all[at]))
            metrics_->add(SystemRow{all[at], int64_t(at / mine.size()), all[at + 1], all[at + 2], all[at + 3], all[at + 4]});
}

void Console::on_eval(int64_t epoch, int64_t step, const EvalResult& e, bool best) {
    if (!comm_.root()) return;
    if (best) note_best(e.accuracy, step);
    metrics_->add(EvalRow{step, epoch, e.loss, e.accuracy, e.seconds});
    terminal_.line(formatted("epoch %lld/%lld  test  loss %.4f accuracy %.2f %% (%lld of %lld)%s  %.1f s", (long long)epoch, (long long)epochs_, unsigned_nan(e.loss),
                100 * e.accuracy, (long long)e.correct, (long long)e.images, best ? ", the best so far" : "", e.seconds));
}

void Console::note_best(double accuracy, int64_t step) {
    metrics_->run_attribute("best_accuracy", accuracy);
    metrics_->run_attribute("best_epoch", (step - 1) / steps_per_epoch_ + 1);
}

void Console::before_checkpoint() {
    if (!comm_.root()) return;
    const Doing doing(comm_.activity(), "waiting for earlier checkpoints to be written");
    writer_->wait_for_room();
}

void Console::on_checkpoint(Checkpoint&& c) {
    gather_system_rows();  // an epoch that is interrupted has no other end
    if (!comm_.root()) return;
    note_written();
    complete(c);
    const Doing doing(comm_.activity(), "waiting for earlier checkpoints to be written");
    writer_->write(std::move(c));
}

void Console::complete(Checkpoint& c) const {
    c.model = run_.model;
    c.identity = run_.identity;
    c.configuration = config_text(run_.config);
}

bool Console::save_held(Checkpoint&& c) {
    complete(c);
    const int64_t step = c.step;
    writer_->write(std::move(c));
    writer_->wait();
    return writer_->newest() >= step;
}

int64_t Console::saved_step() {
    writer_->wait();
    return writer_->newest();
}

void Console::say_ended(int64_t step) {
    const char* dir = run_.dir.c_str();
    metrics_->event(step, "stop", "SIGTERM, in the middle of a step or an evaluation");
    try {
        metrics_->publish();
    } catch (const std::exception&) {
        // The checkpoint is what counts.
    }
    terminal_.line(formatted("stopped by SIGTERM in the middle of a step or an evaluation; the checkpoint of step %lld is in %s/checkpoints; go on with --resume auto --output %s",
                             (long long)step, dir, dir));
}

std::optional<Checkpoint> Console::on_rollback(int64_t failed) {
    if (!comm_.root()) return std::nullopt;
    finish_checkpoints();
    std::optional<ResumePoint> back = newest_checkpoint(run_.dir, state_, run_.identity);
    if (!back) return std::nullopt;
    const Checkpoint& c = back->checkpoint;
    metrics_->go_back(MetricsResume{c.step, c.step / steps_per_epoch_, c.evaluation_due});
    warn(failed, "step " + std::to_string(failed) + " is not finite: going back to step " + std::to_string(c.step) + " with a lower learning rate");
    return std::move(back->checkpoint);
}

void Console::finish_checkpoints() {
    const Doing doing(comm_.activity(), "writing a checkpoint");
    writer_->wait();
    note_written();
}

void Console::note_written() {
    for (const std::string& failure : writer_->metrics_changes()) note_metrics(failure);
    for (const RunWriter::Written& c : writer_->written()) {
        if (c.failure.empty()) {
            saved_step_ = std::max(saved_step_, c.step);
            metrics_->event(c.step, "checkpoint", formatted("%s, written in %.2f s", c.path.c_str(), c.seconds));
        } else if (run_.strict_io) {
            fail(Exit::io, c.failure);
        } else {
            warn(c.step, "no checkpoint: " + c.failure + "; training goes on");
        }
        if (c.model_failure.empty()) continue;
        if (run_.strict_io) fail(Exit::io, c.model_failure);
        warn(c.step, c.model_failure + "; training goes on");
    }
}

void Console::note_metrics(const std::string& failure) {
    const int64_t step = comm_.activity().step();
    if (failure.empty()) {
        const std::string message = "metrics are written again; no row is lost";
        terminal_.line("metrics   " + message);
        metrics_->event(step, "recovered", message);
    } else if (run_.strict_io) {
        fail(Exit::io, failure);
    } else {
        warn(step, failure + "; training goes on");
    }
}

void Console::warn(int64_t step, const std::string& message) {
    terminal_.warning(message);
    metrics_->event(step, "warning", message);
}

void Console::guarded(const std::function<void()>& write) {
    const Doing doing(comm_.activity(), "writing to the run folder");
    try {
        write();
    } catch (const Error& error) {
        if (run_.strict_io || error.code != Exit::io) throw;
        terminal_.warning(std::string(error.what()) + "; training goes on");
    }
}

void Console::record_failure(int64_t step, const std::string& message) {
    terminal_.clear();
    if (!comm_.root() || !writer_) return;
    try {
        finish_checkpoints();  // those that are being written
    } catch (const std::exception&) {
        // What ended the run is what is said.
    }
    guarded([&] {
        metrics_->event(step, "error", message);
        metrics_->publish();
    });
}

void Console::finish(const Trainer& t) {
    finish_checkpoints();
    const char* dir = run_.dir.c_str();
    if (t.stopped()) {
        const char* signal = signal_received();
        const std::string why = signal ? signal : "a request of another rank or the time limit";
        guarded([&] {
            metrics_->event(t.step(), "stop", why);
            metrics_->publish();
        });
        if (saved_step_ != t.step())
            fail(Exit::io, "stopped by " + why + " after step " + std::to_string(t.step()) + ", but the checkpoint could not be written to " + run_.dir +
                               "/checkpoints; steps after " + std::to_string(std::max<int64_t>(saved_step_, 0)) + " are lost");
        terminal_.line(formatted("stopped by %s after step %lld; the checkpoint is in %s/checkpoints; go on with --resume auto --output %s", why.c_str(),
                    (long long)t.step(), dir, dir));
        return;
    }
    const bool evaluated = t.last_accuracy() >= 0;
    metrics_->event(t.step(), "done", evaluated ? formatted("test accuracy %.4f", t.last_accuracy()) : "no evaluation");
    metrics_->publish();
    const std::string accuracy = evaluated ? formatted("test accuracy %.2f %% (best %.2f %%)", 100 * t.last_accuracy(), 100 * t.best_accuracy()) : "not evaluated";
    terminal_.line(formatted("done: %s after %lld steps in %s; metrics in %s/metrics.h5, model in %s/model.h5; draw it: %s plot %s",
                accuracy.c_str(), (long long)t.step(), duration_text(seconds_since(started_)).c_str(), dir, dir, own_command().c_str(), dir));
}

}  // namespace convoy
