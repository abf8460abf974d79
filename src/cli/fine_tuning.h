// Options of fine-tuning: the weights that a training starts from, and the parameters that it
// trains less, or not at all.
#pragma once
#include <string>
#include <vector>

#include "model/name_patterns.h"
#include "train/model_file.h"

namespace convoy {

class OptionTable;

struct FineTuning {
    std::string from;  ///< --init-from: a file or a run folder; empty: random initial weights
    NamePatterns skip, freeze;
    bool freeze_batchnorm = false;
    std::vector<RateFactor> rate_factors;

    Graph frozen(Graph graph) const { return with_frozen(std::move(graph), freeze, freeze_batchnorm); }
};

/// Adds --init-from, --init-skip, --freeze, --freeze-batchnorm and --lr-factor.
void add_fine_tuning(OptionTable&, FineTuning&);
/// Throws Exit::usage for an option that has no effect without another.
void check_fine_tuning(const FineTuning&);

/// The weights that a training takes from a file.
struct InitialWeights {
    ParamValues values{};           ///< an empty tensor is drawn at random
    Preprocessing preprocessing{};  ///< that these weights were trained with
    std::string summary{};          ///< for people: what was taken, and what was not
};
/// Reads a model file, a checkpoint, a run's best model, or weights of PyTorch, for the model of
/// the training. A last layer of another number of classes is not taken. Throws Exit::bad_input if
/// another tensor does not fit, naming the first ones, or if a value is not finite.
InitialWeights read_initial_weights(const FineTuning&, const ModelOptions&);

}  // namespace convoy
