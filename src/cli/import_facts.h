// The facts in a model file besides its tensors, for a model whose weights come from another
// program.
#pragma once
#include <string>
#include <vector>

#include "cli/option_values.h"
#include "data/stored_tensor.h"
#include "train/model_file.h"

namespace convoy {

struct ImportOptions {
    std::string from, to, model, data, class_names, normalize, prefix, key;
    int classes = 0, resize = 0;  ///< 0: not given
    ImageSize image_size;
    NumberList mean, stddev;
    bool overwrite = false;
};

/// Returns the model, the preprocessing and the class names. A fact comes from the options if they
/// have it. Otherwise it comes from the data set, the file's metadata as `convoy export` writes it,
/// the shapes of `stored`, or the defaults that the help states. Throws Exit::usage,
/// Exit::bad_input.
ModelFile facts_of(const ImportOptions&, const StoredTensors& stored);

}  // namespace convoy
