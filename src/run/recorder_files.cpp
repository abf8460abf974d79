// Handles a run's folder and checkpoints, the end of the run, and failures to write.
#include "base/text.h"
#include "run/recorder.h"

namespace convoy {

std::optional<Checkpoint> Recorder::open_folder(int64_t total_steps) {
    const RunPlace& place = run_.place;
    folder_ = std::make_unique<RunFolder>(place.folder, place.continues, place.overwrite);
    const Identity& identity = run_.attributes.identity;
    std::optional<ResumePoint> resume = find_resume_point(place, files(), state_, identity, total_steps);
    check_metrics(place);  // before anything is renamed
    if (!resume) return std::nullopt;
    if (place.continues && !files().run().has("metrics.h5"))
        observer_.warning(place.folder + "/metrics.h5 is missing; the new one begins after step " +
                          std::to_string(resume->checkpoint.step));
    std::vector<std::string> later;
    if (place.continues) later = set_aside_after(files(), resume->checkpoint.step);
    for (const std::string& path : later)
        observer_.warning("a checkpoint later than the one to resume from is now " + path);
    const std::string failure = renew_best_model(files(), *resume, !later.empty(), state_, identity);
    if (!failure.empty()) observer_.warning("no model-best.h5 until a better evaluation: " + failure);
    resumed_from_ = resume->path;
    configuration_before_ = resume->checkpoint.configuration;
    kinds_before_ = resume->checkpoint.kinds;
    return std::move(resume->checkpoint);
}

void Recorder::leave_environment_out(const std::string& before) {
    const bool earlier = ("\n" + before).find("\nno-environment = true\n") != std::string::npos;
    if (!run_.no_environment && !earlier) return;
    if (!run_.no_environment) observer_.note("metrics", "do not say where this runs, as before (--no-environment)");
    if (!earlier && !before.empty())
        observer_.warning(folder() + ": what earlier starts of this run recorded stays there (--no-environment)");
    run_.no_environment = true;
    for (const std::string& path : run_.paths) redaction_.add_path(path);
    for (const auto& [option, value] : config_pairs(before))  // the event of the restart names what changed
        if (path_options().contains(option) && !value.empty()) redaction_.add_path(value);
    redaction_.add_path(folder());
    redaction_.add_hosts({comm_.host()});
    RunAttributes& all = run_.attributes;
    all.environment.clear();
    all.command_line = redaction_(all.command_line);
    for (auto& [option, value] : all.configuration) value = option == "no-environment" ? "true" : redaction_(value);
    metrics_->redact(redaction_);
}

void Recorder::before_checkpoint() {
    if (!comm_.root()) return;
    const Doing doing(comm_.activity(), "waiting for earlier checkpoints to be written");
    writer_->wait_for_room();
}

void Recorder::on_checkpoint(Checkpoint&& c) {
    gather_system_rows();  // here, because an interrupted epoch does not reach on_epoch()
    if (!comm_.root()) return;
    note_written();
    note_moved(c.step);
    complete(c);
    const Doing doing(comm_.activity(), "waiting for earlier checkpoints to be written");
    writer_->write(std::move(c));
}

void Recorder::complete(Checkpoint& c) const {
    c.model = run_.model;
    c.identity = run_.attributes.identity;
    c.configuration = config_text(run_.attributes.configuration);
    c.kinds = kinds_;
}

bool Recorder::save_snapshot(Checkpoint&& c) {
    complete(c);
    const int64_t step = c.step;
    writer_->write(std::move(c));
    writer_->wait();
    return writer_->newest() >= step;
}

int64_t Recorder::saved_step() {
    writer_->wait();
    return writer_->newest();
}

void Recorder::record_termination(int64_t step, const std::string& message) {
    metrics_->event(step, "stop", message);
    try {
        metrics_->publish();
    } catch (const std::exception&) {
        // Ignored, because the checkpoint matters more.
    }
}

std::optional<Checkpoint> Recorder::on_rollback(int64_t failed) {
    if (!comm_.root()) return std::nullopt;
    finish_checkpoints();
    std::optional<ResumePoint> back = newest_checkpoint(files(), state_, run_.attributes.identity);
    if (!back) return std::nullopt;
    const Checkpoint& c = back->checkpoint;
    metrics_->go_back(MetricsResume{c.step, c.step / steps_per_epoch_, c.evaluation_due});
    warn(failed, "step " + std::to_string(failed) + " is not finite: going back to step " + std::to_string(c.step) +
                     " with a lower learning rate");
    return std::move(back->checkpoint);
}

void Recorder::finish_checkpoints() {
    const Doing doing(comm_.activity(), "writing a checkpoint");
    writer_->wait();
    note_written();
}

void Recorder::note_written() {
    for (const std::string& failure : writer_->metrics_changes()) note_metrics(failure);
    for (const RunWriter::Written& c : writer_->written()) {
        if (c.path.empty()) {
            // No checkpoint was due.
        } else if (c.failure.empty()) {
            saved_step_ = std::max(saved_step_, c.step);
            metrics_->event(c.step, "checkpoint", formatted("%s, written in %.2f s", c.path.c_str(), c.seconds));
        } else if (run_.strict_io) {
            fail(Exit::io, c.failure);
        } else {
            warn(c.step, "no checkpoint: " + c.failure + "; training continues");
        }
        if (c.model_failure.empty()) continue;
        if (run_.strict_io) fail(Exit::io, c.model_failure);
        warn(c.step, c.model_failure + "; training continues");
    }
}

void Recorder::note_metrics(const std::string& failure) {
    const int64_t step = comm_.activity().step();
    if (failure.empty()) {
        const std::string message = "metrics are written again; no row is lost";
        observer_.note("metrics", message);
        metrics_->event(step, "recovered", message);
    } else if (run_.strict_io) {
        fail(Exit::io, failure);
    } else {
        warn(step, failure + "; training continues");
    }
}

void Recorder::note_moved(int64_t step) {
    for (const std::string& line : files().moved()) {
        observer_.warning(line);
        const size_t where = run_.no_environment ? line.find(", which is ") : std::string::npos;
        metrics_->event(step, "warning", line.substr(0, where));
    }
}

void Recorder::warn(int64_t step, const std::string& message) {
    observer_.warning(message);
    metrics_->event(step, "warning", message);
}

void Recorder::guarded(const std::function<void()>& write) {
    const Doing doing(comm_.activity(), "writing to the run folder");
    try {
        write();
    } catch (const Error& error) {
        if (run_.strict_io || error.code != Exit::io) throw;
        observer_.warning(std::string(error.what()) + "; training continues");
    }
}

void Recorder::record_failure(int64_t step, const std::string& message) {
    if (!comm_.root() || !writer_) return;
    try {
        finish_checkpoints();
    } catch (const std::exception&) {
        // Ignored, because the failure that ended the run is reported.
    }
    guarded([&] {
        metrics_->event(step, "error", message);
        metrics_->publish();
    });
}

void Recorder::finish(const Trainer& t, const std::string& stopped_by) {
    if (!t.stopped()) save_model(files().place("model.h5"), run_.model, state_, backend_);
    finish_checkpoints();
    note_moved(t.progress().step);
    if (t.stopped()) return finish_stopped(t.progress().step, stopped_by);
    if (audits_ > 0)
        observer_.note("audit", formatted("%lld steps, %lld of them with a difference", (long long)audits_,
                                          (long long)differing_));
    const double accuracy = t.progress().last_accuracy;
    metrics_->event(t.progress().step, "done",
                    accuracy >= 0 ? formatted("test accuracy %.4f", accuracy) : "no evaluation");
    metrics_->publish();
    if (run_.keep == 0) remove_checkpoints(files());
}

void Recorder::finish_stopped(int64_t step, const std::string& why) {
    guarded([&] {
        metrics_->event(step, "stop", why);
        metrics_->publish();
    });
    if (saved_step_ != step)
        fail(Exit::io, "stopped by " + why + " after step " + std::to_string(step) +
                           ", but the checkpoint could not be written to " + folder() + "/checkpoints; steps after " +
                           std::to_string(std::max<int64_t>(saved_step_, 0)) + " are lost");
}

}  // namespace convoy
