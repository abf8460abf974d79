// Output of `convoy predict`: predicted steps by number of ranks, each with the error of such
// predictions of published runs.
#pragma once
#include "plan/step_fit.h"
#include "report/scaling.h"

namespace convoy {

/// The measurements that a prediction is based on; the fewer, the larger its error.
enum class Known : uint8_t {
    step,         ///< a step with these ranks and this batch
    node,         ///< for one node: a step on fewer of its ranks
    nodes,        ///< for several nodes: neither runs nor all-reduces on several nodes
    all_reduces,  ///< for several nodes: all-reduces on several nodes, but no run
    network,      ///< for several nodes: a run on several nodes
    batch,        ///< like node or network, but the batch is outside the range of the measured ones
    unproven      ///< a step of another model, or of one other batch only; such predictions were never validated
};

struct PredictedCell {
    StepPrediction likely, worst, best;
    size_t bucket_bytes = 0;  ///< the bucket size with the shortest step
    Known known = Known::step;
    double speed_up = 1, efficiency = 1;  ///< over one rank
};

struct PredictedTable {
    std::string model, precision{}, image_size, cluster;
    int64_t classes = 0, batch = 0;
    StepModel step{};
    StepWork work;
    std::vector<MeasuredStep> given{};  ///< the measurements that `step` was fitted to
    bool other_model = false;           ///< true: `step` was scaled from another model by multiply-adds
    std::vector<std::string> notes{};   ///< assumptions and their consequences, one line each
    double alone = 0;                   ///< seconds per step of one rank
    size_t bucket_bytes = 0;            ///< bucket size of the cell with the most ranks
    std::vector<PredictedCell> cells{};
};

/// Fills in `alone`, a cell for each number of ranks, and notes on factors that were not measured.
/// Ranks fill one node after the other.
void predict_cells(PredictedTable&, const Cluster&, const std::vector<int>& ranks);

/// Formats the table. JSON and CSV have the columns of the scaling table (scaling_as()) and all
/// terms of the prediction.
std::string prediction_as(const PredictedTable&, Format);
/// Lists every term of each cell, and the all-reduce of every bucket.
std::string prediction_explained(const PredictedTable&);

/// Returns the relative error that nine of ten predictions of published runs stayed below (`make
/// validate-predict`). NaN for Known::step and Known::unproven.
double usual_error(Known);

}  // namespace convoy
