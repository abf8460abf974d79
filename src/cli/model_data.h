// Checks that a trained model and a data set belong together.
#pragma once
#include <string>

#include "data/shard.h"
#include "train/model_file.h"

namespace convoy {

/// Throws Exit::bad_input if the images or the classes of the data set `data_dir` are not those of
/// the model at `path`, with both values.
void check_data(const std::string& path, const ModelFile&, const std::string& data_dir, const SplitInfo&);

/// Loads the model at `path`, as load_model() does. Throws Exit::bad_input, naming the tensor, if a
/// value is not finite, or if a deviation is not positive: no prediction would mean anything.
void load_finite_model(const std::string& path, const ModelFile&, const State&, TensorMemory&);

/// For the option --model-file of several commands.
constexpr const char* model_file_help =
    "model.h5, model-best.h5 or a checkpoint of a run folder; a run folder: its best model";

/// Throws Exit::usage if the file `to` is there and `overwrite` is false, or if it is no regular
/// file.
void check_may_write(const std::string& to, bool overwrite);

}  // namespace convoy
