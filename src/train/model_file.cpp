#include "train/model_file.h"

#include <algorithm>

#include "base/durable.h"
#include "base/file_error.h"
#include "base/shorten.h"
#include "base/version.h"
#include "data/digest.h"
#include "data/shard_folder.h"
#include "data/shard_format.h"
#include "train/running_statistics.h"

namespace convoy {
namespace {

constexpr int64_t file_version = 1;
constexpr const char* model_format = "convoy-model";

std::string dataset_of(const std::string& tensor) { return "/tensors/" + tensor; }

std::vector<hsize_t> dims_of(const Shape& s) { return {hsize_t(s.n), hsize_t(s.h), hsize_t(s.w), hsize_t(s.c)}; }

constexpr int64_t most_side = 4096;  // pixels

// Older files lack these two attributes: their images had the model's size, and were never vectors.
constexpr const char* short_side = "short_side";
constexpr const char* trained_on = "trained_on";

DType read_trained_on(hid_t file, const std::string& path) {
    if (!h5::has_attribute(file, trained_on)) return DType::u8;
    const std::string format = h5::string_attribute(file, trained_on, path);
    for (const DType type : {DType::u8, DType::f32})
        if (format == format_of(type)) return type;
    fail(Exit::bad_input, path + ": attribute " + trained_on + " is '" + shortened(format) +
                              "', not convoy-images or convoy-vectors; use the Convoy that wrote it");
}

std::vector<double> doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

}  // namespace

void write_model_attributes(hid_t file, const ModelFile& m) {
    h5::set_attribute(file, "version", file_version);
    h5::set_checked_attribute(file, "writer", std::string("convoy ") + version + " " + commit());
    h5::set_checked_attribute(file, "model", m.model.name);
    h5::set_checked_attribute(file, "stem", m.model.stem);
    h5::set_attribute(file, "height", int64_t(m.model.h));
    h5::set_attribute(file, "width", int64_t(m.model.w));
    h5::set_attribute(file, "channels", int64_t(m.model.c));
    h5::set_attribute(file, "classes", int64_t(m.model.classes));
    h5::set_checked_attribute(
        file, "layout",
        "convolution weights [out, height, width, in], linear weights [out, 1, 1, in], vectors [1, 1, 1, channels]");
    h5::set_attribute(file, "mean", doubles(m.preprocessing.mean));
    h5::set_attribute(file, "stddev", doubles(m.preprocessing.stddev));
    h5::set_attribute(file, short_side, int64_t(m.preprocessing.short_side));
    h5::set_checked_attribute(file, "class_names", m.class_names);
    h5::set_checked_attribute(file, trained_on, format_of(m.data));
}

ModelFile read_model_attributes(hid_t file, const std::string& path) {
    const auto size = [&](const char* name, int64_t least, int64_t most) {
        const int64_t v = h5::int_attribute(file, name, path);
        if (v < least || v > most)
            fail(Exit::bad_input, path + ": attribute " + name + " is " + std::to_string(v) + ", not from " +
                                      std::to_string(least) + " to " + std::to_string(most));
        return int(v);
    };
    if (const int64_t v = h5::int_attribute(file, "version", path); v != file_version)
        fail(Exit::bad_input, path + ": has file version " + std::to_string(v) + ", this Convoy reads " +
                                  std::to_string(file_version) + "; use the Convoy that wrote it");
    ModelFile m;
    m.model.name = shortened(h5::string_attribute(file, "model", path));  // shortened for messages
    m.model.stem = shortened(h5::string_attribute(file, "stem", path));
    m.model.h = size("height", 1, most_side);
    m.model.w = size("width", 1, most_side);
    m.model.c = size("channels", 1, 16);
    m.model.classes = size("classes", 1, 1'000'000);
    for (double v : h5::double_attributes(file, "mean", path)) m.preprocessing.mean.push_back(float(v));
    for (double v : h5::double_attributes(file, "stddev", path)) m.preprocessing.stddev.push_back(float(v));
    if (h5::has_attribute(file, short_side)) m.preprocessing.short_side = size(short_side, 0, 2 * most_side);
    m.class_names = h5::string_attributes(file, "class_names", path);
    check_class_lengths(m.class_names, path + ": ", "the file is damaged");
    if (m.class_names.size() != size_t(m.model.classes))
        fail(Exit::bad_input, path + ": has " + std::to_string(m.class_names.size()) + " class names and " +
                                  std::to_string(m.model.classes) + " classes; the file is damaged");
    m.data = read_trained_on(file, path);
    const int side = m.preprocessing.short_side;
    if (side > 0 && (side < std::max(m.model.h, m.model.w) || m.data == DType::f32))
        fail(Exit::bad_input, path + ": attribute " + short_side + " is " + std::to_string(side) +
                                  ", which does not fit the model's images; the file is damaged");
    if (int(m.preprocessing.mean.size()) != m.model.c || int(m.preprocessing.stddev.size()) != m.model.c)
        fail(Exit::bad_input, path + ": mean and stddev do not have one value per channel; the file is damaged");
    return m;
}

void write_tensor(hid_t file, const std::string& name, Shape shape, const float* values, const std::string& path) {
    const std::vector<hsize_t> dims = dims_of(shape);
    // Equal chunks of about 1 MiB, because the last one is stored in full size.
    std::vector<hsize_t> chunk = dims;
    const hsize_t most = std::max<hsize_t>(1, (size_t(1) << 18) / std::max<size_t>(1, shape.count() / shape.n)),
                  chunks = (dims[0] + most - 1) / most;
    chunk[0] = (dims[0] + chunks - 1) / chunks;
    const h5::Handle set = h5::create_dataset(file, dataset_of(name), H5T_IEEE_F32LE, dims, chunk, path);
    h5::write_rows(set, H5T_NATIVE_FLOAT, 0, dims[0], values, path);
}

void check_tensor(hid_t file, const std::string& name, Shape shape, const std::string& path) {
    if (!h5::has(file, dataset_of(name)))
        fail(Exit::bad_input, path + ": tensor " + name + " is missing; the file is not of this model");
    const h5::Extent extent = h5::extent(file, dataset_of(name), path);
    const std::vector<hsize_t> dims = dims_of(shape);
    if (extent.dims != dims || extent.element != h5::Element::f32)
        fail(Exit::bad_input,
             path + ": tensor " + name + " has another shape than the model's; the file is not of this model");
    if (extent.stored_bytes < shape.count() * sizeof(float))
        fail(Exit::bad_input, path + ": tensor " + name + " is not complete; the file is damaged");
}

void read_tensor(hid_t file, const std::string& name, Shape shape, float* values, const std::string& path) {
    check_tensor(file, name, shape, path);
    const std::vector<hsize_t> dims = dims_of(shape);
    h5::read_rows(h5::open_dataset(file, dataset_of(name), path), H5T_NATIVE_FLOAT, 0, dims[0], values, path);
}

void write_file(const HeldPlace& place, const std::function<void(hid_t, const std::string&)>& fill) {
    try {
        place.folder().named([&] {
            const auto lock = h5::exclusive();
            h5::Handle file = h5::create(place.partial_path(), h5::Chunks::at_once);
            fill(file, place.partial_shown());
            h5::close(std::move(file), place.partial_shown());
        });
    } catch (const Error&) {
        place.folder().try_to_remove(place.partial());  // frees the space
        throw;
    }
    publish_file(place);
}

void save_model(const HeldPlace& place, const ModelFile& m, const State& state,
                const std::function<const float*(const Tensor&)>& values_of) {
    write_file(place, [&](hid_t file, const std::string& path) {
        h5::set_checked_attribute(file, "format", model_format);
        write_model_attributes(file, m);
        for (const NamedTensor& t : state.model())
            write_tensor(file, t.name, t.tensor.shape, values_of(t.tensor), path);
    });
}

void save_model(const HeldPlace& place, const ModelFile& m, const State& state, TensorMemory& memory) {
    std::vector<float> values;
    save_model(place, m, state, [&](const Tensor& tensor) {
        values.resize(tensor.count());
        memory.download(values.data(), tensor.data, tensor.bytes());
        return values.data();
    });
}

std::vector<unsigned char> model_image(const ModelFile& m, const Graph& graph,
                                       const std::vector<std::vector<float>>& values) {
    const auto lock = h5::exclusive();
    h5::Handle file = h5::create_in_memory();
    h5::set_checked_attribute(file, "format", model_format);
    write_model_attributes(file, m);
    for (size_t id = 0; id < graph.params.size(); ++id)
        write_tensor(file, graph.params[id].name, graph.params[id].shape, values[id].data(), "the model in memory");
    return h5::image(file);
}

/// Throws Exit::bad_input for a file of weights that is of another format, and says how to use it.
static void refuse_other_weights(const std::string& path) {
    for (const char* end : {".safetensors", ".pth", ".pt"})
        if (path.ends_with(end))
            fail(Exit::bad_input, path +
                                      ": holds weights of PyTorch and is no model file; make one of it with "
                                      "'convoy import --from FILE --to NAME.h5'");
    if (path.ends_with(".onnx"))
        fail(Exit::bad_input, path + ": is for other programs; give the model file that it was exported from");
}

namespace {

/// Returns the first `count` running statistics, averaged over the ranks of a checkpoint. The rest
/// are look-ahead's averages.
std::vector<float> mean_running_statistics(hid_t file, size_t count, const std::string& path) {
    const h5::Extent extent = h5::extent(file, dataset_of(running_statistics), path);
    const std::vector<hsize_t>& dims = extent.dims;
    constexpr hsize_t most = 1'000'000;  // ranks
    const bool by_rank = dims.size() == 4 && dims[0] >= 1 && dims[0] <= most && dims[1] == 1 && dims[2] == 1;
    const size_t each = by_rank ? dims[3] : 0;
    const bool fits = each == count || each == 2 * count;
    if (!fits || extent.stored_bytes < dims[0] * each * sizeof(float))  // checked before memory is allocated
        fail(Exit::bad_input, path + ": running statistics are not those of its model; the file is damaged");
    std::vector<float> all(dims[0] * each);
    read_tensor(file, running_statistics, {int(dims[0]), 1, 1, int(each)}, all.data(), path);
    std::vector<float> means = mean_of_rows(all, each);
    means.resize(count);
    return means;
}

}  // namespace

std::string model_in(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (!fs::is_directory(path, error)) return path;
    for (const char* name : {"model-best.h5", "model.h5"})
        if (const std::string model = (fs::path(path) / name).string(); fs::is_regular_file(model, error)) return model;
    fail(Exit::bad_input, path +
                              ": is a folder without model-best.h5 and model.h5; give a model file, a checkpoint, or "
                              "the folder of a run that made an evaluation or ended");
}

/// Opens a file, and says what to do with one of another format.
static h5::Handle open_model(const InputBytes& bytes) {
    try {
        return h5::open(bytes);
    } catch (const Inaccessible&) {
        throw;
    } catch (const Error&) {
        refuse_other_weights(bytes.path());
        throw;
    }
}

OpenModel::OpenModel(std::string path) : path_(std::move(path)), bytes_(path_, h5::check_path) {
    const auto lock = h5::exclusive();
    file_ = open_model(bytes_);
    const std::string format = h5::string_attribute(file_, "format", path_);
    is_checkpoint_ = format == checkpoint_format;
    if (format != model_format && !is_checkpoint_)
        fail(Exit::bad_input,
             path_ + ": is not a model file; give the model.h5, the model-best.h5 or a checkpoint of a run folder");
    model_ = read_model_attributes(file_, path_);
}

OpenModel::~OpenModel() {
    const auto lock = h5::exclusive();
    file_ = {};
}

std::string OpenModel::writer() const {
    const auto lock = h5::exclusive();
    return h5::string_attribute(file_, "writer", path_);
}

std::string OpenModel::sha256() const {
    constexpr int64_t most = 1 << 20;  // bytes read at once
    Digest digest(Digest::Kind::sha256);
    std::vector<char> part(most);
    for (int64_t at = 0; at < bytes_.size(); at += most) {
        const int64_t bytes = std::min(most, bytes_.size() - at);
        bytes_.read(at, bytes, part.data());
        digest.update(part.data(), size_t(bytes));
    }
    return digest.hex();
}

std::vector<std::vector<float>> OpenModel::values(const Graph& graph) const {
    const auto lock = h5::exclusive();
    const std::vector<size_t> offsets = running_offsets(graph);
    std::vector<float> running;
    if (offsets.back() > 0 && is_checkpoint_) running = mean_running_statistics(file_, offsets.back(), path_);
    std::vector<std::vector<float>> values;
    for (size_t id = 0; id < graph.params.size(); ++id) {
        const Param& p = graph.params[id];
        if (p.trained || running.empty()) check_tensor(file_, p.name, p.shape, path_);  // before memory is taken
        values.emplace_back(p.shape.count());
        if (!p.trained && !running.empty())
            std::copy_n(running.begin() + ptrdiff_t(offsets[id]), p.shape.count(), values.back().begin());
        else
            read_tensor(file_, p.name, p.shape, values.back().data(), path_);
    }
    return values;
}

void OpenModel::check_tensors(const Graph& graph) const {
    const auto lock = h5::exclusive();
    for (const Param& p : graph.params)
        if (p.trained || !is_checkpoint_) check_tensor(file_, p.name, p.shape, path_);
}

void OpenModel::load(const State& state, TensorMemory& memory) const {
    const auto lock = h5::exclusive();
    const Tensor running = state.running();
    const bool together = running.count() > 0 && is_checkpoint_;
    if (together) {
        const std::vector<float> means = mean_running_statistics(file_, running.count(), path_);
        memory.upload(running.data, means.data(), running.bytes());
    }
    std::vector<float> values;
    for (const NamedTensor& t : state.model()) {
        if (together && !state.is_trained(t.tensor)) continue;
        check_tensor(file_, t.name, t.tensor.shape, path_);  // before memory is taken
        values.resize(t.tensor.count());
        read_tensor(file_, t.name, t.tensor.shape, values.data(), path_);
        memory.upload(t.tensor.data, values.data(), t.tensor.bytes());
    }
}

}  // namespace convoy
