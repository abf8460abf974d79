// convoy export: writes a trained model for other programs, with PyTorch's names and layout.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "base/durable.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/model_data.h"
#include "comm/comm.h"
#include "data/safetensors.h"
#include "model/torch_names.h"
#include "train/model_file.h"

namespace convoy {
namespace fs = std::filesystem;
namespace po = boost::program_options;

namespace {

struct ExportOptions {
    std::string given, to, dtype;
    bool overwrite = false;
};

po::options_description description(ExportOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("model-file", po::value<std::string>(&o.given)->value_name("FILE"),
         model_file_help)                                                                                 //
        ("to", po::value<std::string>(&o.to)->value_name("FILE"), "the file to write: NAME.safetensors")  //
        ("dtype", po::value<std::string>(&o.dtype)->default_value("f32")->value_name("TYPE"),
         "type of the values: f32, f16 or bf16")  //
        ("overwrite", po::bool_switch(&o.overwrite), "replace a file that is there");
    return options;
}

ExportOptions parse_export(const std::vector<std::string>& args) {
    ExportOptions o;
    const po::variables_map values = parse(description(o), args);
    required_value(values, "model-file");
    required_value(values, "to");
    if (o.dtype != "f32" && o.dtype != "f16" && o.dtype != "bf16")
        fail(Exit::usage, "--dtype " + o.dtype + " is unknown; choose f32, f16 or bf16");
    if (fs::path(o.to).extension() != ".safetensors")
        fail(Exit::usage, "--to " + o.to + ": the format is not known by this ending; name a file NAME.safetensors");
    check_may_write(o.to, o.overwrite);
    return o;
}

template <class T> void append(std::vector<unsigned char>& bytes, T value) {
    const auto* begin = reinterpret_cast<const unsigned char*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
}

/// Appends `v` in the type that --dtype names. Throws Exit::bad_input if f16 cannot hold it.
void append(std::vector<unsigned char>& bytes, float v, const std::string& dtype, const std::string& tensor) {
    if (dtype == "f32") return append(bytes, v);
    if (dtype == "bf16") {
        bf16 half{};
        assign(half, v);
        return append(bytes, half.bits);
    }
    const auto half = static_cast<_Float16>(v);
    if (std::isinf(float(half)) && !std::isinf(v))
        fail(Exit::bad_input, "tensor " + tensor + " has the value " + std::to_string(v) +
                                  ", which f16 cannot hold; take --dtype bf16 or f32");
    append(bytes, half);
}

/// Copies a tensor [n][h * w][c] as [n][c][h * w], which is PyTorch's order.
SafeTensor channels_first(const std::string& name, const std::string& dtype, const float* values, Shape shape) {
    SafeTensor t{.name = name,
                 .dtype = dtype == "f32"   ? "F32"
                          : dtype == "f16" ? "F16"
                                           : "BF16",
                 .shape = {},
                 .bytes = {}};
    const size_t n = size_t(shape.n), pixels = size_t(shape.h) * size_t(shape.w), channels = size_t(shape.c);
    for (size_t i = 0; i < n; ++i)
        for (size_t c = 0; c < channels; ++c)
            for (size_t p = 0; p < pixels; ++p) append(t.bytes, values[(i * pixels + p) * channels + c], dtype, name);
    return t;
}

/// Returns the tensors of a state_dict: convolutions [out, in, height, width], linear layers
/// [out, in] for inputs that were flattened channel by channel, and vectors [channels].
std::vector<SafeTensor> torch_tensors(const Graph& graph, const std::vector<std::vector<float>>& values,
                                      const std::string& dtype) {
    std::vector<SafeTensor> tensors;
    const auto add = [&](ParamId id, Shape shape, std::vector<int64_t> dims) {
        if (id == none) return;
        tensors.push_back(channels_first(torch_name(graph.model, graph.params[size_t(id)].name), dtype,
                                         values[size_t(id)].data(), shape));
        tensors.back().shape = std::move(dims);
    };
    const auto add_vector = [&](ParamId id) {
        if (id != none) add(id, graph.params[size_t(id)].shape, {graph.params[size_t(id)].shape.c});
    };
    for (const Op& op : graph.ops) {
        if (const auto* conv = std::get_if<Conv>(&op)) {
            const Shape s = graph.params[size_t(conv->weight)].shape;
            add(conv->weight, s, {s.n, s.c, s.h, s.w});
            add_vector(conv->bias);
        } else if (const auto* linear = std::get_if<Linear>(&op)) {
            const Shape s = graph.params[size_t(linear->weight)].shape;
            const Value& x = graph.values[size_t(linear->x)];
            add(linear->weight, {s.n, x.h, x.w, x.c}, {s.n, s.c});
            add_vector(linear->bias);
        } else if (const auto* norm = std::get_if<BatchNorm>(&op)) {
            for (const ParamId id : {norm->scale, norm->bias, norm->mean, norm->var}) add_vector(id);
            const std::string mean = torch_name(graph.model, graph.params[size_t(norm->mean)].name);
            tensors.push_back({.name = mean.substr(0, mean.rfind('.')) + ".num_batches_tracked",
                               .dtype = "I64",
                               .shape = {},
                               .bytes = std::vector<unsigned char>(sizeof(int64_t))});
        }
    }
    return tensors;
}

/// Bytes that are no UTF-8 become replacement characters.
constexpr auto replace_bad_text = nlohmann::json::error_handler_t::replace;

/// Returns the metadata: facts that a reader needs besides the tensors.
std::map<std::string, std::string> metadata_of(const ModelFile& file) {
    const auto numbers = [](const std::vector<float>& list) { return nlohmann::json(list).dump(); };
    return {{"format", "pt"},
            {"model", file.model.name},
            {"stem", stem_of(file.model)},
            {"image_size", formatted("%dx%dx%d", file.model.h, file.model.w, file.model.c)},
            {"resize_short_side", std::to_string(file.preprocessing.short_side)},
            {"mean", numbers(file.preprocessing.mean)},
            {"stddev", numbers(file.preprocessing.stddev)},
            {"classes", std::to_string(file.model.classes)},
            {"class_names", nlohmann::json(file.class_names).dump(-1, ' ', false, replace_bad_text)},
            {"writer", std::string("convoy ") + version + " (" + commit() + ")"}};
}

}  // namespace

OptionGroups options_of_export() {
    ExportOptions o;
    return one_group(description(o));
}

int export_model(const std::vector<std::string>& args) {
    const ExportOptions o = parse_export(args);
    const std::string path = model_in(o.given);
    const ModelFile file = read_model_file(path);
    const Graph graph = build_model(file.model);
    const std::vector<SafeTensor> tensors = torch_tensors(graph, read_model_values(path, graph), o.dtype);
    const std::vector<unsigned char> bytes = safetensors_file(tensors, metadata_of(file));
    make_folder_of(o.to);
    replace_file(o.to, bytes);
    std::printf("%s: %zu tensors of %s in %s, %.1f MB\n", printable(o.to).c_str(), tensors.size(),
                printable(path).c_str(), o.dtype.c_str(), double(bytes.size()) / 1e6);
    return 0;
}

}  // namespace convoy
