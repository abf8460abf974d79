// The scaling table: samples/s by nodes, ranks and batch, as medians of repeated runs, beside
// published figures. Ranks are called GPUs only if each is known to have a separate GPU.
#pragma once
#include <cmath>
#include <string>
#include <vector>

namespace convoy {

/// One run, or one published figure. Empty texts and zeros: not known. A run that ran out of memory
/// recorded little.
struct ScalingRun {
    std::string source = "Convoy", model, precision, image_size;  ///< "224x224x3"
    int64_t batch = 0;                                            ///< images per rank
    int64_t nodes = 0, ranks = 0;                                 ///< ranks: of all nodes together
    double samples_per_second = NAN;                              ///< of all ranks
    bool out_of_memory = false;
    /// for a published figure: precision of the table that shows it; `precision` is the figure's
    std::string beside{};
    std::string stem{};  ///< resnets: imagenet or cifar
    int64_t classes = 0;
    std::string device{};  ///< "gpu": each rank has one to itself; "cpu"
    std::string run{};     ///< folder of the run, for messages
    bool to_do = false;    ///< a published cell without a figure: TODO
};

/// The runs of one source, model, precision, size, device, batch and number of nodes and ranks.
struct ScalingCell {
    ScalingRun run;    ///< samples_per_second: the median; out_of_memory: all runs ran out of memory
    int64_t runs = 0;  ///< number of measured runs
    /// relative to the measured cell with the fewest ranks; efficiency is a fraction
    double speed_up = NAN, efficiency = NAN;
    int64_t base_ranks = 0;  ///< number of ranks of that cell
    double expected = NAN;   ///< predicted samples/s (add_expected()); NaN: no prediction, or the base cell
    std::string limit{};     ///< the largest term of the prediction
    std::string note{};      ///< why the model's published figures do not compare; empty: they do, or none exist
};

/// Describes the known parts of a run's images: "32x32x3 images, 10 classes, cifar stem".
std::string work_text(const ScalingRun&);
/// Returns true if two runs belong to the same table.
bool same_table(const ScalingRun&, const ScalingRun&);

/// Returns cells sorted by model, precision, size, device, batch, source (Convoy first), ranks and
/// nodes. Includes the figures of `published` whose model, size, device and batch a run has. Throws
/// Exit::usage if the runs of a model have different images, classes or stems.
std::vector<ScalingCell> scaling_cells(std::vector<ScalingRun> runs, const std::vector<ScalingRun>& published);

/// Reads published figures from the lines after a header; # starts a comment. A line is
/// "source,model,precision,image_size,classes,batch_per_gpu,nodes,gpus,samples_per_second". The
/// last may be OOM or TODO, as published. Throws Exit::bad_input naming the line.
std::vector<ScalingRun> read_published(const std::string& path);

enum class Format { text, markdown, csv, json };
/// Formats cells. Text and Markdown have one table per batch and one row per number of ranks, with
/// published samples/s (speed-up) on the right. CSV and JSON have one row or object per cell,
/// including published ones.
std::string scaling_as(const std::vector<ScalingCell>&, Format);

}  // namespace convoy
