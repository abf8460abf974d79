// convoy export: writes a trained model for other programs, as safetensors with PyTorch's names and
// layout or as ONNX.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/durable.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/encoded_values.h"
#include "cli/help.h"
#include "cli/model_data.h"
#include "cli/onnx_file.h"
#include "comm/comm.h"
#include "data/safetensors.h"
#include "model/torch_layout.h"
#include "train/model_file.h"

namespace convoy {
namespace po = boost::program_options;

namespace {

struct ExportOptions {
    std::string given, to, dtype;
    DType type = DType::f32;  ///< the type that `dtype` names
    bool overwrite = false, raw_pixels = false;
    bool onnx() const { return to.ends_with(".onnx"); }
};

po::options_description description(ExportOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("model-file", po::value<std::string>(&o.given)->value_name("FILE"),
         model_file_help)  //
        ("to", po::value<std::string>(&o.to)->value_name("FILE"),
         "the file to write: NAME.safetensors, or NAME.onnx")  //
        ("dtype", po::value<std::string>(&o.dtype)->default_value("f32")->value_name("TYPE"),
         "type of the weights: f32, f16 or bf16; ONNX in f16 also computes in f16")  //
        ("raw-pixels", po::bool_switch(&o.raw_pixels),
         "in ONNX: take pixels from 0 to 255, u8, and make the normalisation a part of the model")  //
        ("overwrite", po::bool_switch(&o.overwrite), "replace a file that is there");
    return options;
}

ExportOptions parse_export(const std::vector<std::string>& args) {
    ExportOptions o;
    const po::variables_map values = parse(description(o), args);
    required_value(values, "model-file");
    required_value(values, "to");
    constexpr std::array types = {DType::f32, DType::f16, DType::bf16};
    const auto* type = std::ranges::find(types, o.dtype, [](DType t) { return std::string(name_of(t)); });
    if (type == types.end()) fail(Exit::usage, "--dtype " + o.dtype + " is unknown; choose f32, f16 or bf16");
    o.type = *type;
    if (!o.onnx() && !o.to.ends_with(".safetensors"))
        fail(Exit::usage,
             "--to " + o.to + ": this ending names no known format; name a file NAME.safetensors or NAME.onnx");
    if (!o.onnx() && o.raw_pixels)
        fail(Exit::usage, "--raw-pixels is for NAME.onnx, because safetensors hold no operations; leave it out");
    check_may_write(o.to, o.overwrite);
    return o;
}

/// Returns the tensors of a state_dict.
std::vector<SafeTensor> torch_tensors(const Graph& graph, const std::vector<std::vector<float>>& values, DType type) {
    const char* name = type == DType::f32 ? "F32" : type == DType::f16 ? "F16" : "BF16";
    std::vector<SafeTensor> tensors;
    for (const TorchEntry& entry : torch_layout(graph)) {
        if (entry.param == none) {
            tensors.push_back({entry.name, "I64", {}, std::vector<unsigned char>(sizeof(int64_t))});
            continue;
        }
        const std::vector<float> list = to_torch_order(values[entry.param], entry.order);
        tensors.push_back({entry.name, name, entry.dims, encoded(list, type, "tensor " + entry.name)});
    }
    return tensors;
}

/// Makes JSON replace bytes that are not UTF-8.
constexpr auto replace_bad_text = nlohmann::json::error_handler_t::replace;

/// Returns the metadata: facts that a reader needs besides the tensors.
std::map<std::string, std::string> metadata_of(const ModelFile& file) {
    const auto numbers = [](const std::vector<float>& list) { return nlohmann::json(list).dump(); };
    return {{"format", "pt"},
            {"model", file.model.name},
            {"trained_on", file.data == DType::f32 ? "vectors" : "images"},
            {"stem", stem_of(file.model)},
            {"image_size", formatted("%dx%dx%d", file.model.h, file.model.w, file.model.c)},
            {"resize_short_side", std::to_string(file.preprocessing.short_side)},
            {"mean", numbers(file.preprocessing.mean)},
            {"stddev", numbers(file.preprocessing.stddev)},
            {"classes", std::to_string(file.model.classes)},
            {"class_names", nlohmann::json(file.class_names).dump(-1, ' ', false, replace_bad_text)},
            {"writer", std::string("convoy ") + version + " (" + commit() + ")"}};
}

/// A file that is complete in memory.
struct ExportedFile {
    std::vector<unsigned char> bytes;
    std::string what;  ///< description for the line that is printed
};

ExportedFile safetensors_of(const ExportOptions& o, const ModelFile& file, const Graph& graph,
                            const std::vector<std::vector<float>>& values) {
    const std::vector<SafeTensor> tensors = torch_tensors(graph, values, o.type);
    return {safetensors_file(tensors, metadata_of(file)), formatted("%zu tensors", tensors.size())};
}

ExportedFile onnx_of(const ExportOptions& o, const ModelFile& file, const Graph& graph,
                     const std::vector<std::vector<float>>& values) {
    if (o.raw_pixels && file.data != DType::u8)
        fail(Exit::usage, "--raw-pixels is for models of images, and this one takes vectors; leave it out");
    OnnxOptions how{.dtype = o.type, .metadata = metadata_of(file), .producer = "convoy", .producer_version = version};
    if (o.raw_pixels) {
        how.mean = file.preprocessing.mean;
        how.stddev = file.preprocessing.stddev;
    }
    const std::string bytes = onnx_file(graph, values, how);
    return {{bytes.begin(), bytes.end()}, o.raw_pixels ? "ONNX, which takes pixels," : "ONNX"};
}

}  // namespace

OptionGroups options_of_export() {
    ExportOptions o;
    return one_group(description(o));
}

int export_model(const std::vector<std::string>& args) {
    const ExportOptions o = parse_export(args);
    const OpenModel model(model_in(o.given));
    const Graph graph = build_model(model.file().model);
    const auto [bytes, what] = (o.onnx() ? onnx_of : safetensors_of)(o, model.file(), graph, model.values(graph));
    replace_file(o.to, bytes, o.overwrite ? IfThere::replace : IfThere::refuse);
    std::printf("%s: %s of %s in %s, %.1f MB\n", printable(o.to).c_str(), what.c_str(), printable(model.path()).c_str(),
                o.dtype.c_str(), double(bytes.size()) / 1e6);
    return 0;
}

}  // namespace convoy
