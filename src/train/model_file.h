// RUN/model.h5 and RUN/model-best.h5: the trained parameters and running statistics as named
// tensors, and the data to build the model and prepare its images. A file appears complete or not
// at all. A checkpoint can also be read as a model.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/held_place.h"
#include "data/hdf5.h"
#include "data/input_bytes.h"
#include "model/models.h"
#include "supply/preprocessing.h"
#include "train/state.h"

namespace convoy {

struct ModelFile {
    ModelOptions model;
    Preprocessing preprocessing;
    std::vector<std::string> class_names;
    DType data = DType::u8;  ///< type of the training data: images (u8) or vectors (f32)
};

/// The attribute `format` of a checkpoint, and the name of its tensor [ranks, 1, 1, running
/// statistics]. A model file has no such tensor.
constexpr const char *checkpoint_format = "convoy-checkpoint", *running_statistics = "running_statistics";

/// Write and read the attributes of a model, also as part of a checkpoint.
void write_model_attributes(hid_t file, const ModelFile&);
ModelFile read_model_attributes(hid_t file, const std::string& path);
/// Writes a tensor of host values [shape.count()] as /tensors/NAME.
void write_tensor(hid_t file, const std::string& name, Shape, const float* values, const std::string& path);
/// Throws Exit::bad_input if /tensors/NAME is missing, or has another shape or too little data.
void check_tensor(hid_t file, const std::string& name, Shape, const std::string& path);
/// Reads /tensors/NAME. Throws Exit::bad_input if it is missing or has another shape.
void read_tensor(hid_t file, const std::string& name, Shape, float* values, const std::string& path);

/// Writes an HDF5 file durably, through a temporary one. `fill` writes its content; its argument
/// `path` is for messages. Throws Exit::io.
void write_file(const HeldPlace&, const std::function<void(hid_t file, const std::string& path)>& fill);
/// Writes a model as write_file() does. `values_of` returns a tensor's host values, which are valid
/// until its next call.
void save_model(const HeldPlace&, const ModelFile&, const State&,
                const std::function<const float*(const Tensor&)>& values_of);
void save_model(const HeldPlace&, const ModelFile&, const State&, TensorMemory&);
/// Returns the bytes of a model file. `values` are by ParamId, each in the shape and layout of
/// graph.params.
std::vector<unsigned char> model_image(const ModelFile&, const Graph&, const std::vector<std::vector<float>>& values);
/// Returns `path`. If it is a run's folder, returns the run's best model in it, or its last model
/// if there is no best one. Throws Exit::bad_input if the run has none.
std::string model_in(const std::string& path);
/// A model file or checkpoint that is open. Everything is read from this one file, even if another
/// one takes its path: a training renames a new model-best.h5 into place.
class OpenModel {
public:
    /// Reads the attributes. Throws Exit::bad_input.
    explicit OpenModel(std::string path);
    ~OpenModel();
    OpenModel(const OpenModel&) = delete;
    OpenModel& operator=(const OpenModel&) = delete;

    const std::string& path() const { return path_; }
    const ModelFile& file() const { return model_; }
    bool is_checkpoint() const { return is_checkpoint_; }
    /// Returns the program that wrote it, with its version.
    std::string writer() const;
    /// Returns the SHA-256 of the file's bytes.
    std::string sha256() const;
    /// Throws as load() does if a tensor of `graph` is missing or has another shape. Call it before
    /// a State is made, because a small file may have the attributes of a huge model.
    void check_tensors(const Graph&) const;
    /// Reads the tensors into a state. Averages a checkpoint's running statistics over its ranks,
    /// as an evaluation does. Throws Exit::bad_input naming the first tensor that is missing or has
    /// another shape.
    void load(const State&, TensorMemory&) const;
    /// Reads the parameters and running statistics of `graph` into host memory, by ParamId, each in
    /// the shape and layout of graph.params. Averages and throws like load().
    std::vector<std::vector<float>> values(const Graph&) const;

private:
    std::string path_;
    InputBytes bytes_;
    h5::Handle file_;
    ModelFile model_;
    bool is_checkpoint_ = false;
};

}  // namespace convoy
