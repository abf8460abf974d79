// Convoy's own progress lines: a status per log interval, a line per epoch and a line per
// evaluation.
#include <cmath>

#include "base/text.h"
#include "cli/progress_lines.h"

namespace convoy {
namespace {

std::string epoch_text(const RunShape& run, int64_t epoch) {
    return formatted("epoch %lld/%lld", (long long)epoch, (long long)run.epochs());
}

class PlainLines final : public ProgressLines {
public:
    PlainLines(const RunShape& run, Terminal& terminal) : run_(run), terminal_(terminal) {}

    void on_start(int64_t done) override {
        first_step_ = done;
        started_ = Clock::now();
    }

    void on_steps(int64_t epoch, const std::vector<StepRecord>& records) override {
        const StepRecord& r = records.back();
        const double seconds_a_step = seconds_since(started_) / double(r.step - first_step_);
        const double left = seconds_a_step * double(run_.total_steps - r.step);
        terminal_.status(formatted("%s  step %lld/%lld  loss %.4f  accuracy %5.2f %%  rate %.4g  step %.1f ms  %s left",
                                   epoch_text(run_, epoch).c_str(), (long long)r.step, (long long)run_.total_steps,
                                   unsigned_nan(r.loss), 100 * r.accuracy, r.learning_rate, 1e3 * r.step_seconds,
                                   duration_text(left).c_str()));
    }

    void on_epoch(const EpochSummary& e, const std::vector<RankEpochRow>&) override {
        const double ms_a_step = 1e3 / double(std::max<int64_t>(1, e.steps));
        terminal_.line(
            formatted("%s  train loss %.4f accuracy %.2f %%  %.1f s  %.0f images/s  step %.1f ms, %.1f without data "
                      "wait, %.1f exposed communication",
                      epoch_text(run_, e.epoch).c_str(), unsigned_nan(e.all.loss()), 100 * e.all.accuracy(), e.seconds,
                      e.images_per_second(), ms_a_step * e.step_seconds, ms_a_step * (e.step_seconds - e.data_seconds),
                      ms_a_step * e.comm_exposed_seconds));
    }

    void on_eval(int64_t epoch, const EvalResult& e, bool best) override {
        terminal_.line(plain_test_line(run_, epoch, e, best));
    }

    void on_end() override {}

private:
    const RunShape run_;
    Terminal& terminal_;
    int64_t first_step_ = 0;
    Clock::time_point started_ = Clock::now();
};

}  // namespace

double unsigned_nan(double v) { return std::isnan(v) ? std::abs(v) : v; }

std::string plain_test_line(const RunShape& run, int64_t epoch, const EvalResult& e, bool best) {
    return formatted("%s  test  loss %.4f accuracy %.2f %% (%lld of %lld)%s  %.1f s", epoch_text(run, epoch).c_str(),
                     unsigned_nan(e.loss), 100 * e.accuracy, (long long)e.correct, (long long)e.images,
                     best ? ", the best so far" : "", e.seconds);
}

std::unique_ptr<ProgressLines> make_plain_lines(const RunShape& run, Terminal& terminal) {
    return std::make_unique<PlainLines>(run, terminal);
}

}  // namespace convoy
