// Options of fine-tuning: the weights that a training starts from, and the parameters that it
// trains with a lower rate or not at all.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/name_patterns.h"
#include "run/configuration.h"
#include "train/model_file.h"

namespace convoy {

class OptionTable;

struct FineTuning {
    std::string from;           ///< --init-from: a file or a run folder; empty: random initial weights
    NamePatterns skip, freeze;  ///< empty: none
    bool freeze_batchnorm = false;
    std::vector<RateFactor> rate_factors;

    Graph frozen(Graph graph) const { return with_frozen(std::move(graph), freeze, freeze_batchnorm); }
};

/// Adds --init-from, --init-skip, --freeze, --freeze-batchnorm and --lr-factor.
void add_fine_tuning(OptionTable&, FineTuning&);
/// Replaces --freeze by the text that the resumed run recorded, if both name the same tensors.
/// Otherwise throws Exit::usage, naming tensors that only one of the two freezes.
/// `recorded`: the options that the checkpoint recorded; empty: no run is resumed.
void take_recorded_freeze(const std::string& recorded, const ModelOptions&, FineTuning&, ConfigPairs& resolved);

/// Returns the factors of the learning rate for people: "; --lr-factor fc.bias 10, fc.weight 7".
/// Empty if there is none.
std::string rate_factors_text(const std::map<std::string, double>& by_name);

/// The weights that a training takes from a file.
struct InitialWeights {
    ParamValues values{};           ///< an empty tensor is drawn at random
    Preprocessing preprocessing{};  ///< the preprocessing that these weights were trained with
    std::string summary{};          ///< for people: the parts that were taken, and those that were not
};
/// Reads initial weights for the model: from a model file, a checkpoint, a run's best model, or
/// weights of PyTorch. Leaves out the last layer if the file has another number of classes. Throws
/// Exit::bad_input, naming the first tensors, if another tensor does not fit or a value is not
/// finite.
InitialWeights read_initial_weights(const FineTuning&, const ModelOptions&);

}  // namespace convoy
