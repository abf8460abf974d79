// RUN/model.h5: the trained parameters and running statistics as named tensors, with what is needed to build the model and
// prepare its images. Appears complete or not at all.
#pragma once
#include <string>
#include <vector>

#include "data/hdf5.h"
#include "model/models.h"
#include "train/state.h"

namespace convoy {

struct ModelFile {
    ModelOptions model;
    std::vector<float> mean, stddev;  ///< by channel, units of pixel / 255
    std::vector<std::string> class_names;
};

/// The attributes and tensors of a model file, as parts of a larger one (a checkpoint).
void write_model_attributes(hid_t file, const ModelFile&);
ModelFile read_model_attributes(hid_t file, const std::string& path);
/// Writes a tensor of host values [shape.count()] as /tensors/NAME.
void write_tensor(hid_t file, const std::string& name, Shape, const float* values, const std::string& path);
/// Reads /tensors/NAME; throws Exit::bad_input if it is missing or has another shape.
void read_tensor(hid_t file, const std::string& name, Shape, float* values, const std::string& path);

/// Writes `path` (through a temporary file). Throws Exit::io.
void save_model(const std::string& path, const ModelFile&, const State&, Backend&);
/// Reads what model the file holds. Throws Exit::bad_input.
ModelFile read_model_file(const std::string& path);
/// Reads the tensors into `state`. Throws Exit::bad_input naming the first tensor that is missing or of another shape.
void load_model(const std::string& path, const State&, Backend&);

}  // namespace convoy
