// Progress lines exactly as PyTorch scripts print them, so that programs that read a script's log
// can read Convoy's. As in the scripts, a step's line is printed every log interval, beginning with
// the first step of an epoch.
#include <cmath>
#include <optional>

#include "base/text.h"
#include "cli/progress_lines.h"

namespace convoy {
namespace {

/// Totals of the current epoch so far. After a resume or a rollback they begin again at zero.
struct SoFar {
    Tally images;
    int64_t steps = 0, steps_with_images = 0;
    double step_losses = 0, step_seconds = 0, data_seconds = 0;  // sums over steps

    void add(const Tally& of_step, const StepRecord& r) {
        images += of_step;
        ++steps;
        if (of_step.images > 0) {  // some ranks have no images of a short last batch
            ++steps_with_images;
            step_losses += of_step.loss();
        }
        step_seconds += r.step_seconds;
        data_seconds += r.data_seconds;
    }
    double mean(double sum) const { return sum / double(steps); }
    double mean_loss() const { return step_losses / double(steps_with_images); }
};

/// The behaviour that the lines of all scripts share.
class ScriptLines : public ProgressLines {
public:
    ScriptLines(const RunShape& run, Terminal& terminal) : run_(run), terminal_(terminal) {}

    void on_start(int64_t) override { began_ = epoch_began_ = Clock::now(); }

    void on_steps(int64_t epoch, const std::vector<StepRecord>& records) override {
        end_epoch();
        for (const StepRecord& r : records) {
            const int64_t index = (r.step - 1) % run_.steps_per_epoch;
            if (index == 0 || r.step != last_step_ + 1) so_far_ = {};
            last_step_ = r.step;
            so_far_.add(tally_of(r), r);
            if (index % run_.log_interval == 0) print_step(epoch, index, r);
        }
    }

    void on_epoch(const EpochSummary& e, const std::vector<RankEpochRow>& ranks) override {
        open_epoch_ = e.epoch;
        epoch_ended_ = Clock::now();
        print_training(e, ranks);
    }

    void on_eval(int64_t epoch, const EvalResult& e, bool best) override {
        print_test(epoch, e, best);
        epoch_ended_ = Clock::now();
        open_epoch_ = open_epoch_.value_or(epoch);
        end_epoch();
    }

    void on_end() override {
        end_epoch();
        print_end();
    }

protected:
    /// Prints a step. `epoch` counts from 1, and `index`, the step in the epoch, from 0.
    virtual void print_step(int64_t /*epoch*/, int64_t /*index*/, const StepRecord&) {}
    virtual void print_training(const EpochSummary&, const std::vector<RankEpochRow>&) {}
    virtual void print_test(int64_t epoch, const EvalResult& e, bool best) {
        terminal_.line(plain_test_line(run_, epoch, e, best));
    }
    /// Prints an epoch, after its evaluation if it has one.
    virtual void print_epoch(int64_t /*epoch*/) {}
    virtual void print_end() {}

    Tally tally_of(const StepRecord& r) const { return run_.batch_per_rank ? tally_of_own(r) : tally_of_all(r); }
    void print(const std::string& line) { terminal_.line(line, "\t"); }
    const SoFar& so_far() const { return so_far_; }
    double epoch_seconds() const { return std::chrono::duration<double>(epoch_ended_ - epoch_began_).count(); }
    double seconds() const { return seconds_since(began_); }

    const RunShape run_;
    Terminal& terminal_;

private:
    void end_epoch() {
        if (!open_epoch_) return;
        print_epoch(*open_epoch_);
        open_epoch_.reset();
        epoch_began_ = epoch_ended_;
    }

    SoFar so_far_;
    int64_t last_step_ = -1;
    std::optional<int64_t> open_epoch_;  // an epoch that was trained; it is not known yet if an evaluation follows
    Clock::time_point began_ = Clock::now(), epoch_began_ = began_, epoch_ended_ = began_;
};

/// The lines of pytorch/examples, mnist, with the time of each epoch.
class PytorchExampleLines final : public ScriptLines {
    using ScriptLines::ScriptLines;

    void print_step(int64_t epoch, int64_t index, const StepRecord& r) override {
        if (tally_of_own(r).images == 0) return;  // this rank has no images of a short last batch
        print(formatted("Train Epoch: %lld [%lld/%lld (%.0f%%)]\tLoss: %.6f", (long long)epoch,
                        (long long)(index * run_.global_batch), (long long)run_.images,
                        100.0 * double(index) / double(run_.steps_per_epoch), unsigned_nan(tally_of_own(r).loss())));
    }
    void print_test(int64_t, const EvalResult& e, bool) override {
        print("");
        print(formatted("Test set: Average loss: %.4f, Accuracy: %lld/%lld (%.0f%%)", unsigned_nan(e.loss),
                        (long long)e.correct, (long long)e.images, 100 * e.accuracy));
        print("");
    }
    void print_epoch(int64_t epoch) override {
        print(formatted("Epoch %lld of %lld took %.3fs", (long long)epoch, (long long)run_.epochs(), epoch_seconds()));
    }
    void print_end() override { print(formatted("Total time= %.3fs", seconds())); }
};

/// One line per epoch and rank. Each rank's log has that rank's lines; rank 0 also shows the
/// others'.
class MnistLinearLines final : public ScriptLines {
    using ScriptLines::ScriptLines;

    void print_training(const EpochSummary&, const std::vector<RankEpochRow>& ranks) override { ranks_ = ranks; }
    void print_test(int64_t, const EvalResult& e, bool) override {
        test_ = formatted(", test loss: %.6f, test acc: %.2f%%", unsigned_nan(e.loss), 100 * e.accuracy);
    }
    void print_epoch(int64_t epoch) override {
        // if an epoch was trained before the run was resumed, only its evaluation is known
        ranks_.resize(size_t(run_.ranks), {.loss = NAN, .accuracy = NAN});
        for (size_t rank = 0; rank < ranks_.size(); ++rank) {
            const RankEpochRow& own = ranks_[rank];
            const std::string line = formatted("Epoch: %lld/%lld, train loss: %.6f, train acc: %.2f%%%s.",
                                               (long long)epoch, (long long)run_.epochs(), unsigned_nan(own.loss),
                                               unsigned_nan(100 * own.accuracy), test_.c_str());
            if (int(rank) == run_.rank)
                print(line);
            else
                terminal_.relay(line);
        }
        ranks_.clear();
        test_.clear();
    }

    std::vector<RankEpochRow> ranks_;
    std::string test_;
};

/// A PyramidNet script's lines: means over the epoch so far. The time of a batch excludes its wait
/// for data, because the script starts its clock when it has the batch.
class PyramidnetLines final : public ScriptLines {
    using ScriptLines::ScriptLines;

    void print_step(int64_t epoch, int64_t index, const StepRecord& r) override {
        const bool distributed = run_.batch_per_rank && run_.ranks > 1;
        print(formatted("%sEpoch[%lld]: [%lld/%lld]| loss: %.3f | acc: %.3f | batch time: %.3fs",
                        distributed ? formatted("From Rank: %d, ", run_.rank).c_str() : "", (long long)epoch,
                        (long long)index, (long long)run_.steps_per_epoch, unsigned_nan(so_far().mean_loss()),
                        100 * so_far().images.accuracy(), r.step_seconds - r.data_seconds));
    }
    void print_training(const EpochSummary& e, const std::vector<RankEpochRow>&) override {
        print("Training time " + timedelta_text(e.seconds));
    }
};

/// The lines of pytorch/examples, imagenet: each figure, and in brackets its mean over the epoch.
class ImagenetLines final : public ScriptLines {
    using ScriptLines::ScriptLines;

    void print_step(int64_t epoch, int64_t index, const StepRecord& r) override {
        const std::string steps = std::to_string(run_.steps_per_epoch);
        const Tally now = tally_of(r);
        const SoFar& all = so_far();
        print(formatted("Epoch: [%lld][%*lld/%s]", (long long)(epoch - 1), int(steps.size()), (long long)(index + 1),
                        steps.c_str()) +
              formatted("\tTime %6.3f (%6.3f)\tData %6.3f (%6.3f)", r.step_seconds, all.mean(all.step_seconds),
                        r.data_seconds, all.mean(all.data_seconds)) +
              formatted("\tLoss %.4e (%.4e)", unsigned_nan(now.loss()), unsigned_nan(all.images.loss())) +
              formatted("\tAcc@1 %6.2f (%6.2f)\tAcc@5 %6.2f (%6.2f)", 100 * now.accuracy(), 100 * all.images.accuracy(),
                        100 * now.top5_accuracy(), 100 * all.images.top5_accuracy()));
    }
    void print_test(int64_t, const EvalResult& e, bool) override {
        print(formatted(" * Acc@1 %.3f Acc@5 %.3f", 100 * e.accuracy, 100 * e.top5_accuracy));
    }
};

}  // namespace

std::string timedelta_text(double seconds) {
    const auto all = std::llround(seconds * 1e6);  // microseconds
    const long long s = all / 1'000'000, days = s / 86400;
    std::string text = days == 0 ? "" : formatted("%lld day%s, ", days, days == 1 ? "" : "s");
    text += formatted("%lld:%02lld:%02lld", s / 3600 % 24, s / 60 % 60, s % 60);
    if (const long long micro = all % 1'000'000; micro > 0) text += formatted(".%06lld", micro);
    return text;
}

std::unique_ptr<ProgressLines> make_progress_lines(LogFormat format, const RunShape& run, Terminal& terminal) {
    switch (format) {
        case LogFormat::plain: break;
        case LogFormat::pytorch_example: return std::make_unique<PytorchExampleLines>(run, terminal);
        case LogFormat::mnist_linear: return std::make_unique<MnistLinearLines>(run, terminal);
        case LogFormat::pyramidnet: return std::make_unique<PyramidnetLines>(run, terminal);
        case LogFormat::imagenet: return std::make_unique<ImagenetLines>(run, terminal);
    }
    return make_plain_lines(run, terminal);
}

}  // namespace convoy
