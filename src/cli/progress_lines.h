// The lines that tell how a training goes: ours, or those that the PyTorch scripts print which it
// replaces. A script's lines are whole lines of stdout, whatever else stands between them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "run/recorder.h"

namespace convoy {

/// --log-format
enum class LogFormat { plain, pytorch_example, mnist_linear, pyramidnet, imagenet };

/// The facts about a run that the lines print.
struct RunShape {
    int rank = 0, ranks = 1;
    /// --batch-per-rank: a rank prints figures of this rank's images, as scripts under
    /// DistributedDataParallel do; else of all images, as under DataParallel
    bool batch_per_rank = false;
    int64_t total_steps = 0, steps_per_epoch = 1, log_interval = 10;
    int64_t global_batch = 0, images = 0;  ///< of a step; of the training split

    int64_t epochs() const { return (total_steps + steps_per_epoch - 1) / steps_per_epoch; }
};

/// Every rank has one; where its lines go is its Terminal's matter. As RunObserver.
class ProgressLines {
public:
    virtual ~ProgressLines() = default;
    virtual void on_start(int64_t done) = 0;
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    virtual void on_epoch(const EpochSummary&, const std::vector<RankEpochRow>&) = 0;
    virtual void on_eval(int64_t epoch, const EvalResult&, bool best) = 0;
    /// The training ended, or was stopped.
    virtual void on_end() = 0;
};
/// The terminal must outlive it.
std::unique_ptr<ProgressLines> make_progress_lines(LogFormat, const RunShape&, Terminal&);
std::unique_ptr<ProgressLines> make_plain_lines(const RunShape&, Terminal&);

/// printf shows the sign of a NaN, which means nothing.
double unsigned_nan(double);
/// "epoch 2/3  test  loss …"
std::string plain_test_line(const RunShape&, int64_t epoch, const EvalResult&, bool best);
/// Formats seconds like Python's timedelta: "0:03:20.438088", "1 day, 2:00:00".
std::string timedelta_text(double seconds);

}  // namespace convoy
