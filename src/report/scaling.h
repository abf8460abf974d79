// The scaling table: samples/s by nodes, ranks and batch, medians of repeated runs, and published
// figures. Ranks are called GPUs only where each is known to have one to itself.
#pragma once
#include <cmath>
#include <string>
#include <vector>

namespace convoy {

/// One run, or one published figure. Empty texts and zeros: not known (a run that ended for lack of
/// memory knows little).
struct ScalingRun {
    std::string source = "Convoy", model, precision, image_size;  ///< "224x224x3"
    int64_t batch = 0;                                            ///< a rank
    int64_t nodes = 0, ranks = 0;                                 ///< of all nodes
    double samples_per_second = NAN;                              ///< of all ranks
    bool out_of_memory = false;
    std::string
        beside{};  ///< of a published figure: the precision of the table it stands in, while `precision` is its own
    std::string stem{};  ///< of a resnet: imagenet or cifar
    int64_t classes = 0;
    std::string device{};  ///< "gpu": each rank has one to itself; "cpu"
    std::string run{};     ///< its folder, for messages
    bool to_do = false;    ///< a published cell without a figure: TODO
};

/// The runs of one source, model, precision, size, device, batch and number of nodes and ranks.
struct ScalingCell {
    ScalingRun run;    ///< samples_per_second: the median; out_of_memory: not one of them ran
    int64_t runs = 0;  ///< that were measured
    double speed_up = NAN,
           efficiency = NAN;  ///< over the measured cell with the fewest ranks; per added rank, as a fraction
    int64_t base_ranks = 0;   ///< of that cell
    double expected = NAN;    ///< samples/s by a cluster file (add_expected()); NaN: not asked, or the base itself
    std::string limit{};      ///< of `expected`: its largest term
    std::string note{};       ///< why no published figures of this model stand beside it; empty: no reason
};

/// "32x32x3 images, 10 classes, cifar stem", of what is known.
std::string work_text(const ScalingRun&);
/// Whether two runs belong into one table.
bool same_table(const ScalingRun&, const ScalingRun&);

/// Cells by model, precision, size, device, batch, source (Convoy first), nodes and ranks.
/// Of `published`: what has the model, size, device and batch of some run.
/// Throws Exit::usage if one model comes with different images, classes or stems.
std::vector<ScalingCell> scaling_cells(std::vector<ScalingRun> runs, const std::vector<ScalingRun>& published);

/// Reads lines after a header; # starts a comment. Throws Exit::bad_input naming the line. A line
/// is "source,model,precision,image_size,classes,batch_per_gpu,nodes,gpus,samples_per_second"; the
/// last may be OOM or TODO, as some were published.
std::vector<ScalingRun> read_published(const std::string& path);

enum class Format { text, markdown, csv, json };
/// Text and Markdown: one table a batch, a row a number of ranks, published samples/s (speed-up) on
/// the right. CSV and JSON: one row or object a cell, published ones too.
std::string scaling_as(const std::vector<ScalingCell>&, Format);

}  // namespace convoy
