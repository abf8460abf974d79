#include "cli/console.h"

#include <cmath>

#include "base/project.h"
#include "base/text.h"

namespace convoy {
namespace {

/// printf shows the sign of a NaN, which means nothing.
double unsigned_nan(double v) { return std::isnan(v) ? std::abs(v) : v; }

}  // namespace

Console::Console(const Trainer& trainer, Terminal& terminal)
    : trainer_(trainer),
      terminal_(terminal),
      total_steps_(trainer.total_steps()),
      steps_per_epoch_(trainer.steps_per_epoch()) {}

std::string Console::epoch_text(int64_t epoch) const {
    const int64_t epochs = (total_steps_ + steps_per_epoch_ - 1) / steps_per_epoch_;
    return formatted("epoch %lld/%lld", (long long)epoch, (long long)epochs);
}

void Console::note(const std::string& about, const std::string& message) {
    terminal_.line(formatted("%-9s %s", about.c_str(), message.c_str()));
}

void Console::on_start(const std::vector<RankRow>& ranks, int64_t done) {
    std::vector<std::string> lines;
    for (const RankRow& r : ranks)
        lines.push_back(formatted("%s: %s, %d thread%s on %s", r.host.c_str(), r.device.c_str(), int(r.threads),
                                  r.threads == 1 ? "" : "s", r.placement.c_str()));
    for (size_t r = 0, next = 0; r < lines.size(); r = next) {  // equal lines are said once
        for (next = r + 1; next < lines.size() && lines[next] == lines[r];) ++next;
        const bool single = next == r + 1;
        note(single ? formatted("rank %zu", r) : formatted("ranks %zu-%zu", r, next - 1),
             lines[r] + (single ? "" : ", each"));
    }
    first_step_ = done;
    training_started_ = Clock::now();
}

void Console::on_step(int64_t epoch, const StepRecord& r) {
    const double seconds_a_step = seconds_since(training_started_) / double(r.step - first_step_);
    const double left = seconds_a_step * double(total_steps_ - r.step);
    terminal_.status(formatted("%s  step %lld/%lld  loss %.4f  accuracy %5.2f %%  rate %.4g  step %.1f ms  %s left",
                               epoch_text(epoch).c_str(), (long long)r.step, (long long)total_steps_,
                               unsigned_nan(r.loss), 100 * r.accuracy, r.learning_rate, 1e3 * r.step_seconds,
                               duration_text(left).c_str()));
}

void Console::on_epoch(const EpochSummary& e) {
    const double ms_a_step = 1e3 / double(std::max<int64_t>(1, e.steps));
    terminal_.line(formatted(
        "%s  train loss %.4f accuracy %.2f %%  %.1f s  %.0f images/s  step %.1f ms, %.1f without data "
        "wait, %.1f exposed communication",
        epoch_text(e.epoch).c_str(), unsigned_nan(e.loss()), 100 * e.accuracy(), e.seconds, e.images_per_second(),
        ms_a_step * e.step_seconds, ms_a_step * (e.step_seconds - e.data_seconds), ms_a_step * e.comm_exposed_seconds));
}

void Console::on_eval(int64_t epoch, const EvalResult& e, bool best) {
    terminal_.line(formatted("%s  test  loss %.4f accuracy %.2f %% (%lld of %lld)%s  %.1f s", epoch_text(epoch).c_str(),
                             unsigned_nan(e.loss), 100 * e.accuracy, (long long)e.correct, (long long)e.images,
                             best ? ", the best so far" : "", e.seconds));
}

void Console::print_termination(int64_t checkpoint, const std::string& folder) {
    terminal_.line(
        formatted("stopped by SIGTERM in the middle of a step or an evaluation; the checkpoint of step %lld is in "
                  "%s/checkpoints; go on with --resume auto --output %s",
                  (long long)checkpoint, folder.c_str(), folder.c_str()));
}

void Console::print_end(const std::string& folder, const std::string& stopped_by) {
    const char* dir = folder.c_str();
    const auto step = (long long)trainer_.step();
    if (trainer_.stopped()) {
        terminal_.line(formatted(
            "stopped by %s after step %lld; the checkpoint is in %s/checkpoints; go on with --resume auto --output %s",
            stopped_by.c_str(), step, dir, dir));
        return;
    }
    const std::string accuracy = trainer_.last_accuracy() >= 0
                                     ? formatted("test accuracy %.2f %% (best %.2f %%)", 100 * trainer_.last_accuracy(),
                                                 100 * trainer_.best_accuracy())
                                     : "not evaluated";
    terminal_.line(formatted(
        "done: %s after %lld steps in %s; metrics in %s/metrics.h5, model in %s/model.h5; draw it: %s plot %s",
        accuracy.c_str(), step, duration_text(seconds_since(started_)).c_str(), dir, dir, own_command().c_str(), dir));
}

}  // namespace convoy
