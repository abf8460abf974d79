// The summary of a run for `convoy report`, computed from the rows of its metrics file.
#pragma once
#include <string>
#include <vector>

#include "report/published_runs.h"
#include "report/scaling.h"
#include "run/configuration.h"
#include "run/metrics_file.h"

namespace convoy {

struct RankTotals {
    int64_t rank = 0, threads = 0;
    int64_t first_logical_rank = 0, logical_ranks = 1;  ///< as in RankRow
    std::string host, device;
    double data = 0, compute = 0, wait = 0;  ///< seconds over all epochs; a slow rank computes longer, waits less
    double utilisation = NAN;                ///< busy fraction of its GPU or threads: mean over time
    double celsius = NAN;                    ///< highest temperature of its GPU
};

struct RunSummary {
    std::string run;               ///< the folder, as given
    std::string model, precision;  ///< empty: not known
    std::string image_size;        ///< as the model sees it, "64x64x3"; empty: not known
    std::string stem;              ///< resnets: imagenet or cifar
    std::string device;            ///< "gpu": one per rank; "cpu"; empty: not known, or shared GPUs
    int64_t classes = 0;           ///< 0: not known
    std::string out_of_memory;     ///< the message of a run that ran out of memory; else empty
    int64_t ranks = 0, hosts = 0, global_batch = 0, batch_per_rank = 0, steps = 0;
    int64_t epochs = 0;  ///< completed epochs
    double training_seconds = 0, eval_seconds = 0;
    double epoch_seconds = NAN;                       ///< median
    int64_t images = 0;                               ///< trained on by all ranks in training_seconds
    double images_per_second = NAN;                   ///< images / training_seconds; NaN without an epoch
    double step_images_per_second = NAN;              ///< of all ranks: global batch / median step of rank 0
    double last_accuracy = NAN, best_accuracy = NAN;  ///< on the test split, as fractions
    int64_t last_epoch = 0, best_epoch = 0;
    double step_seconds = NAN, data_seconds = NAN, comm_exposed_seconds = NAN;  ///< medians over the steps of rank 0
    std::vector<RankTotals> of_ranks;
    std::vector<EventRow> events;
    ConfigPairs options;  ///< as the run recorded them; empty if it ran out of memory
    /// set by compare(): options that differ between runs, with the same names for all runs. An
    /// empty value: the run did not record the option
    ConfigPairs differing;
    std::vector<PublishedRun> published;  ///< set by add_published()
};

/// Summarises a run. `run` is a run folder or its metrics.h5. Throws Exit::bad_input if there is no
/// run, or if its file is damaged.
RunSummary summarise(const std::string& run);

/// Converts a summary for the scaling table. Throws Exit::bad_input if the batch, the ranks or the
/// rate are not known, unless the run ran out of memory.
ScalingRun as_scaling_run(const RunSummary&);

/// Sorts runs by their best accuracy, the highest first, and sets RunSummary::differing. Runs
/// without an evaluation come last, in the order given. An option that a run did not record counts
/// as its default.
void compare(std::vector<RunSummary>& runs, const ConfigPairs& defaults);

/// Sets RunSummary::published to the trainings of the same model and images.
void add_published(std::vector<RunSummary>& runs, const std::vector<PublishedRun>&);

/// Returns the table that compares runs, in the order given.
std::string comparison_text(const std::vector<RunSummary>&);

/// Formats summaries. Text of several runs, and Markdown, begin with a table of all runs in the
/// order given.
std::string summaries_as(const std::vector<RunSummary>&, Format);

}  // namespace convoy
