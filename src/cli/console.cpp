#include "cli/console.h"

#include "base/project.h"
#include "base/shell_word.h"
#include "base/text.h"

namespace convoy {

Console::Console(const Trainer& trainer, Terminal& terminal, std::unique_ptr<ProgressLines> lines)
    : trainer_(trainer), terminal_(terminal), lines_(std::move(lines)) {}

void Console::note(const std::string& about, const std::string& message) {
    terminal_.line(formatted("%-9s %s", about.c_str(), message.c_str()));
}

void Console::on_start(const std::vector<RankRow>& ranks, int64_t done) {
    std::vector<std::string> lines;
    for (const RankRow& r : ranks)
        lines.push_back(formatted("%s: %s, %d thread%s on %s", r.host.c_str(), r.device.c_str(), int(r.threads),
                                  r.threads == 1 ? "" : "s", r.placement.c_str()));
    for (size_t r = 0, next = 0; r < lines.size(); r = next) {  // equal lines are printed once
        for (next = r + 1; next < lines.size() && lines[next] == lines[r];) ++next;
        const bool single = next == r + 1;
        note(single ? formatted("rank %zu", r) : formatted("ranks %zu-%zu", r, next - 1),
             lines[r] + (single ? "" : ", each"));
    }
    lines_->on_start(done);
}

void Console::print_termination(const std::string& signal, int64_t checkpoint, const std::string& folder,
                                const std::string& again) {
    terminal_.line(
        formatted("stopped by %s in the middle of a step or an evaluation; the checkpoint of step %lld is in "
                  "%s; continue with: %s",
                  signal.c_str(), (long long)checkpoint, shell_word(folder + "/checkpoints").c_str(), again.c_str()));
}

void Console::print_end(const std::string& folder, const std::string& stopped_by, const std::string& again) {
    const auto word = [&](const char* file) { return shell_word(folder + file); };
    const auto step = (long long)trainer_.progress().step;
    if (trainer_.stopped()) {
        terminal_.line(formatted("stopped by %s after step %lld; the checkpoint is in %s; continue with: %s",
                                 stopped_by.c_str(), step, word("/checkpoints").c_str(), again.c_str()));
        return;
    }
    const std::string accuracy =
        trainer_.progress().last_accuracy >= 0
            ? formatted("test accuracy %.2f %% (best %.2f %%)", 100 * trainer_.progress().last_accuracy,
                        100 * trainer_.progress().best_accuracy)
            : "not evaluated";
    terminal_.line(formatted("done: %s after %lld steps in %s; metrics in %s, model in %s; draw it: %s plot %s",
                             accuracy.c_str(), step, duration_text(seconds_since(started_)).c_str(),
                             word("/metrics.h5").c_str(), word("/model.h5").c_str(), shell_word(own_command()).c_str(),
                             word("").c_str()));
}

}  // namespace convoy
