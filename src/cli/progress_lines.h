// The lines that show the progress of a training: Convoy's own, or those of a PyTorch script that
// Convoy replaces. A script's line is a whole line of stdout; other lines may stand between.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "run/recorder.h"

namespace convoy {

/// The values of --log-format.
enum class LogFormat { plain, pytorch_example, mnist_linear, pyramidnet, imagenet };

/// The facts about a run that the lines print.
struct RunShape {
    int rank = 0, ranks = 1;
    /// true (--batch-per-rank): a rank prints figures of this rank's images, as scripts under
    /// DistributedDataParallel do; false: figures of all images, as under DataParallel
    bool batch_per_rank = false;
    int64_t total_steps = 0, steps_per_epoch = 1, log_interval = 10;
    int64_t global_batch = 0, images = 0;  ///< samples per step; images of the training split

    int64_t epochs() const { return (total_steps + steps_per_epoch - 1) / steps_per_epoch; }
};

/// Prints the progress of a training on one rank. The rank's Terminal decides where the lines go.
/// The functions are called like those of RunObserver.
class ProgressLines {
public:
    virtual ~ProgressLines() = default;
    virtual void on_start(int64_t done) = 0;
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    virtual void on_epoch(const EpochSummary&, const std::vector<RankEpochRow>&) = 0;
    virtual void on_eval(int64_t epoch, const EvalResult&, bool best) = 0;
    /// Called when the training has ended or was stopped.
    virtual void on_end() = 0;
};
/// Returns the lines of a format. The terminal must outlive them.
std::unique_ptr<ProgressLines> make_progress_lines(LogFormat, const RunShape&, Terminal&);
std::unique_ptr<ProgressLines> make_plain_lines(const RunShape&, Terminal&);

/// Removes the sign of a NaN, which printf would show although it means nothing.
double unsigned_nan(double);
/// Returns "epoch 2/3  test  loss …".
std::string plain_test_line(const RunShape&, int64_t epoch, const EvalResult&, bool best);
/// Formats seconds like Python's timedelta: "0:03:20.438088", "1 day, 2:00:00".
std::string timedelta_text(double seconds);

}  // namespace convoy
