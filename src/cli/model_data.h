// Checks that a trained model and a data set belong together.
#pragma once
#include <string>

#include "comm/comm.h"
#include "data/shard.h"
#include "train/model_file.h"

namespace convoy {

/// Throws Exit::bad_input, with both values, if the images or the classes of the data set
/// `data_dir` differ from those of the model at `path`.
void check_data(const std::string& path, const ModelFile&, const std::string& data_dir, const SplitInfo&);

/// Collective. Throws Exit::usage unless all ranks have opened files with the same bytes. A
/// training may have put a better model into place meanwhile.
void check_same_model(Comm&, const OpenModel&);

/// Loads a model, as OpenModel::load() does. Throws Exit::bad_input, naming the tensor, if a value
/// is not finite or a deviation is not positive, because predictions would be meaningless.
void load_finite_model(const OpenModel&, const State&, TensorMemory&);

/// The help text of the option --model-file, which several commands have.
constexpr const char* model_file_help =
    "model.h5, model-best.h5 or a checkpoint of a run folder; a run folder: its best model";

/// Throws Exit::usage if the file `to` exists and `overwrite` is false, or if it is no regular
/// file.
void check_may_write(const std::string& to, bool overwrite);

}  // namespace convoy
