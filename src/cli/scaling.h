// The scaling table: samples/s by nodes, GPUs and batch, from the medians of repeated runs, beside published figures.
#pragma once
#include <cmath>
#include <string>
#include <vector>

namespace convoy {

/// One run, or one published figure. Empty texts and zeros: not known (a run that ended for lack of memory knows little).
struct ScalingRun {
    std::string source = "Convoy", model, precision, image_size;  ///< "224x224x3"
    int64_t batch = 0;                                            ///< a GPU, or a rank on CPUs
    int64_t nodes = 0, gpus = 0;                                  ///< of all nodes
    double samples_per_second = NAN;                              ///< of all GPUs
    bool out_of_memory = false;
    std::string beside{};  ///< of a published figure: the precision of the table it stands in, while `precision` is its own
};

/// The runs of one source, model, precision, image size, batch and number of nodes and GPUs.
struct ScalingCell {
    ScalingRun run;                          ///< samples_per_second: the median; out_of_memory: not one of them ran
    int64_t runs = 0;                        ///< that were measured
    double speed_up = NAN, efficiency = NAN; ///< over the cell of this source with the fewest GPUs; per added GPU, as a fraction
    int64_t base_gpus = 0;                   ///< of that cell
};

/// Cells by model, precision, image size, batch, source (Convoy first), nodes and GPUs. Of `published` what has the model, image
/// size and batch of some run.
std::vector<ScalingCell> scaling_cells(std::vector<ScalingRun> runs, const std::vector<ScalingRun>& published);

/// Reads lines "source,model,precision,image_size,batch_per_gpu,nodes,gpus,samples_per_second" behind a header; # starts a comment. Throws
/// Exit::bad_input naming the line.
std::vector<ScalingRun> read_published(const std::string& path);

enum class Format { text, markdown, csv, json };
/// Text and Markdown: one table a batch, a row a number of GPUs, published samples/s (speed-up) on the right. CSV and JSON: one row
/// or object a cell, published ones too.
std::string scaling_as(const std::vector<ScalingCell>&, Format);

}  // namespace convoy
