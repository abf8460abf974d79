// RUN/model.h5 and RUN/model-best.h5: the trained parameters and running statistics as named
// tensors, with what is needed to build the model and prepare its images. Appears complete or not
// at all. A checkpoint can be read as a model, too.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/held_place.h"
#include "data/hdf5.h"
#include "model/models.h"
#include "train/preprocessing.h"
#include "train/state.h"

namespace convoy {

struct ModelFile {
    ModelOptions model;
    Preprocessing preprocessing;
    std::vector<std::string> class_names;
    DType data = DType::u8;  ///< what it was trained on: images, or vectors (f32)
};

/// What a checkpoint has besides: the attribute `format`, and a tensor [ranks, 1, 1, running
/// statistics].
constexpr const char *checkpoint_format = "convoy-checkpoint", *running_statistics = "running_statistics";

/// The attributes and tensors of a model file, as parts of a larger one (a checkpoint).
void write_model_attributes(hid_t file, const ModelFile&);
ModelFile read_model_attributes(hid_t file, const std::string& path);
/// Writes a tensor of host values [shape.count()] as /tensors/NAME.
void write_tensor(hid_t file, const std::string& name, Shape, const float* values, const std::string& path);
/// Reads /tensors/NAME; throws Exit::bad_input if it is missing or has another shape.
void read_tensor(hid_t file, const std::string& name, Shape, float* values, const std::string& path);

/// Writes an HDF5 file durably, through a temporary one. `fill` writes its content; the path that
/// it gets is for messages. Throws Exit::io.
void write_file(const HeldPlace&, const std::function<void(hid_t file, const std::string& path)>& fill);
/// Writes a model as write_file() does; `values_of` gives a tensor's host values until its next
/// call.
void save_model(const HeldPlace&, const ModelFile&, const State&,
                const std::function<const float*(const Tensor&)>& values_of);
void save_model(const HeldPlace&, const ModelFile&, const State&, Backend&);
/// Reads what model the file, which may be a checkpoint, holds. Throws Exit::bad_input.
ModelFile read_model_file(const std::string& path);
/// Reads the parameters and running statistics of `graph` into the host's memory, by ParamId, each
/// in the shape and layout of graph.params. Checkpoints and errors as load_model().
std::vector<std::vector<float>> read_model_values(const std::string& path, const Graph&);
/// Returns `path`, or the best model of a run, else its last, if `path` is the run's folder. Throws
/// Exit::bad_input if it has none.
std::string model_in(const std::string& path);
/// Reads the tensors into `state`; of a checkpoint's running statistics the mean over its ranks, as
/// an evaluation takes it. Throws Exit::bad_input naming the first tensor that is missing or of
/// another shape.
void load_model(const std::string& path, const State&, Backend&);

}  // namespace convoy
