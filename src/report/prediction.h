// What `convoy predict` prints: predicted steps by number of ranks, with the error that predictions
// of published runs had.
#pragma once
#include "plan/step_fit.h"
#include "report/scaling.h"

namespace convoy {

/// What a prediction knows of the machines; the less, the larger its error.
enum class Known : uint8_t {
    step,     ///< the step is given: for these ranks and this batch
    node,     ///< one node, from fewer ranks of it
    nodes,    ///< several nodes, none of which was measured together
    sums,     ///< several nodes, of which sums were measured, but no run
    network,  ///< several nodes, from a run on several
    batch,    ///< as node or network, but of a batch beyond those that were measured
    unproven  ///< the step is another model's, or of another batch alone: nobody compared such predictions
};

struct PredictedCell {
    StepPrediction likely, worst, best;
    size_t bucket_bytes = 0;  ///< with which the step is shortest
    Known known = Known::step;
    double speed_up = 1, efficiency = 1;  ///< over one rank
};

struct PredictedTable {
    std::string model, precision{}, image_size, cluster;
    int64_t classes = 0, batch = 0;
    StepModel step{};
    StepWork work;
    std::vector<MeasuredStep> given{};  ///< that `step` was fitted to
    bool other_model = false;           ///< `step` is another model's, by multiply-adds
    std::vector<std::string> notes{};   ///< what was assumed, and what it means
    double alone = 0;                   ///< seconds of a step of one rank
    size_t bucket_bytes = 0;            ///< on the most ranks
    std::vector<PredictedCell> cells{};
};

/// Fills in `alone`, the cells of these numbers of ranks, which fill nodes, and notes on factors.
void predict_cells(PredictedTable&, const Cluster&, const std::vector<int>& ranks);

/// JSON and CSV have the columns of the scaling table (scaling_as()) and all terms.
std::string prediction_as(const PredictedTable&, Format);
/// Every term, and every bucket's sum.
std::string prediction_explained(const PredictedTable&);

/// The relative error that nine of ten predictions of published runs stayed below
/// (`make validate-predict`). NaN: its step is given, or nothing is known.
double usual_error(Known);

}  // namespace convoy
