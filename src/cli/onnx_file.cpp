// Numbers of fields and types are those of onnx.proto3. Batch norms are written in inference form
// (in f16: folded), dropout is left out, and GELU consists of operations of opset 17.
#include "cli/onnx_file.h"

#include <map>
#include <numbers>
#include <span>

#include "base/error.h"
#include "cli/encoded_values.h"
#include "data/protobuf.h"
#include "model/fold.h"
#include "model/torch_layout.h"

namespace convoy {
namespace {

enum Type { type_float = 1, type_u8 = 2, type_i64 = 7, type_f16 = 10, type_bf16 = 16 };

Type type_of(DType type) { return type == DType::f32 ? type_float : type == DType::f16 ? type_f16 : type_bf16; }

ProtoMessage attribute(const char* name, int64_t value) {
    constexpr int of_int = 2;
    ProtoMessage a;
    a.text(1, name);
    a.number(3, value);
    a.number(20, of_int);
    return a;
}
ProtoMessage attribute(const char* name, float value) {
    constexpr int of_float = 1;
    ProtoMessage a;
    a.text(1, name);
    a.real(2, value);
    a.number(20, of_float);
    return a;
}
ProtoMessage attribute(const char* name, std::initializer_list<int64_t> values) {
    constexpr int of_ints = 7;
    ProtoMessage a;
    a.text(1, name);
    for (const int64_t value : values) a.number(8, value);
    a.number(20, of_ints);
    return a;
}

/// Describes an input or output whose first dimension is the batch.
ProtoMessage value_info(const char* name, Type type, std::initializer_list<int> dims) {
    ProtoMessage batch, shape, tensor, kind, info;
    batch.text(2, "batch");
    shape.message(1, batch);
    for (const int dim : dims) {
        ProtoMessage side;
        side.number(1, dim);
        shape.message(1, side);
    }
    tensor.number(1, type);
    tensor.message(2, shape);
    kind.message(1, tensor);
    info.text(1, name);
    info.message(2, kind);
    return info;
}

/// Appends operations and constants to a graph.
class Writer {
public:
    Writer(const Graph& graph, const std::vector<std::vector<float>>& values, DType dtype)
        : graph_(graph), values_(values), dtype_(dtype), names_(graph.values.size()) {
        for (TorchEntry& entry : torch_layout(graph))
            if (entry.param != none) layout_[entry.param] = std::move(entry);
    }

    /// Appends all layers. They read `input`, and write the output "logits". Returns GraphProto.
    ProtoMessage finish(const std::string& input) {
        names_[graph_.input] = in_f16() ? cast(input, input + "_f16", type_f16) : input;
        for (const Op& op : graph_.ops) std::visit([&](const auto& o) { add(o); }, op);
        if (in_f16()) cast(of(logits()), "logits", type_float);
        return out_;
    }

    /// Appends (pixels - 255 mean) / (255 stddev), and returns its name.
    std::string normalized(const std::string& pixels, const OnnxOptions& o) {
        std::vector<float> shift, factor;
        for (const float mean : o.mean) shift.push_back(255 * mean);
        for (const float deviation : o.stddev) factor.push_back(1 / (255 * deviation));
        const std::vector<int64_t> dims = {int64_t(shift.size()), 1, 1};
        constant("pixel_mean", shift, dims, DType::f32);
        constant("pixel_factor", factor, dims, DType::f32);
        node("Sub", {cast(pixels, "pixels_f32", type_float), "pixel_mean"}, "centred");
        node("Mul", {"centred", "pixel_factor"}, "normalized");
        return "normalized";
    }

    void message(int field, const ProtoMessage& m) { out_.message(field, m); }
    void text(int field, const std::string& t) { out_.text(field, t); }

private:
    bool in_f16() const { return dtype_ == DType::f16; }

    template <class T>
    void append_constant(const std::string& name, Type type, std::span<const T> values, std::span<const int64_t> dims) {
        ProtoMessage tensor;
        for (const int64_t dim : dims) tensor.number(1, dim);
        tensor.number(2, type);
        tensor.text(8, name);
        tensor.text(9, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
        out_.message(5, tensor);
    }
    void constant(const std::string& name, const std::vector<float>& values, const std::vector<int64_t>& dims,
                  DType dtype) {
        const std::vector<unsigned char> bytes = encoded(values, dtype, "constant " + name + " of the ONNX file");
        append_constant<unsigned char>(name, type_of(dtype), bytes, dims);
    }
    /// Appends a constant of the type that operations have.
    void constant(const std::string& name, const std::vector<float>& values, const std::vector<int64_t>& dims) {
        constant(name, values, dims, in_f16() ? DType::f16 : DType::f32);
    }
    std::string cast(const std::string& from, const std::string& to, Type type) {
        node("Cast", {from}, to, {attribute("to", int64_t(type))});
        return to;
    }
    void node(const char* type, const std::vector<std::string>& inputs, const std::string& output,
              const std::vector<ProtoMessage>& attributes = {}) {
        ProtoMessage n;
        for (const std::string& input : inputs) n.text(1, input);
        n.text(2, output);
        n.text(3, output);
        n.text(4, type);
        for (const ProtoMessage& a : attributes) n.message(5, a);
        out_.message(1, n);
    }

    /// Returns the name of a value that an earlier op has written.
    const std::string& of(ValueId id) const { return names_[id]; }
    /// Names the value that an op writes.
    const std::string& made(ValueId id) {
        const char* last = in_f16() ? "logits_f16" : "logits";
        return names_[id] = id == logits() ? last : "v" + std::to_string(id);
    }
    ValueId logits() const { return std::get<SoftmaxXent>(graph_.ops.back()).x; }
    /// Appends a parameter. Returns its name in the type that operations have.
    std::string param(ParamId id) {
        const auto& [name, dims, param, order] = layout_.at(id);
        const std::vector<float> values = to_torch_order(values_[param], order);
        if (dtype_ != DType::bf16 || dims.size() < 2) {
            constant(name, values, dims);
            return name;
        }
        constant(name, values, dims, DType::bf16);
        return cast(name, name + "_f32", type_float);
    }

    void add(const Conv& o) {
        std::vector<std::string> inputs = {of(o.x), param(o.weight)};
        if (o.bias != none) inputs.push_back(param(o.bias));
        node("Conv", inputs, made(o.y), window(o.kernel, o.stride, o.pad));
    }
    static std::vector<ProtoMessage> window(int64_t kernel, int64_t stride, int64_t pad) {
        return {attribute("kernel_shape", {kernel, kernel}), attribute("strides", {stride, stride}),
                attribute("pads", {pad, pad, pad, pad})};
    }
    void add(const BatchNorm& o) {
        require(o.residual == none && o.act == Activation::identity, "the graph is not fused");
        if (in_f16()) return add_folded(o);
        node("BatchNormalization", {of(o.x), param(o.scale), param(o.bias), param(o.mean), param(o.var)}, made(o.y),
             {attribute("epsilon", o.epsilon)});
    }
    /// Appends x factor + shift, because f16 could hold neither a small variance nor epsilon.
    void add_folded(const BatchNorm& o) {
        const auto [factor, shift] = factors_of(o, values_);
        const std::string& scale = layout_.at(o.scale).name;
        const std::string norm = scale.substr(0, scale.rfind('.')), x = of(o.x), y = made(o.y);
        const std::vector<int64_t> dims = {int64_t(factor.size()), 1, 1};
        constant(norm + ".factor", factor, dims);
        constant(norm + ".shift", shift, dims);
        node("Mul", {x, norm + ".factor"}, y + "_scaled");
        node("Add", {y + "_scaled", norm + ".shift"}, y);
    }
    void add(const Relu& o) { node("Relu", {of(o.x)}, made(o.y)); }
    /// Appends x (1 + erf(x / sqrt(2))) / 2.
    void add(const Gelu& o) {
        if (!has_gelu_constants_) {
            constant("sqrt_half", {float(std::numbers::sqrt2 / 2)}, {});
            constant("one", {1}, {});
            constant("half", {0.5f}, {});
        }
        has_gelu_constants_ = true;
        const std::string x = of(o.x), y = made(o.y);
        node("Mul", {x, "sqrt_half"}, y + "_scaled");
        node("Erf", {y + "_scaled"}, y + "_erf");
        node("Add", {y + "_erf", "one"}, y + "_sum");
        node("Mul", {y + "_sum", "half"}, y + "_share");
        node("Mul", {x, y + "_share"}, y);
    }
    void add(const Scale& o) {
        const std::string x = of(o.x), y = made(o.y);
        constant(y + "_factor", {o.factor}, {});
        node("Mul", {x, y + "_factor"}, y);
    }
    void add(const Add& o) { node("Add", {of(o.a), of(o.b)}, made(o.y)); }
    void add(const Pool& o) {
        const Value& x = graph_.values[o.x];
        const std::string from = of(o.x);
        if (o.kind == Pool::max)
            node("MaxPool", {from}, made(o.y), window(o.kernel, o.stride, o.pad));
        else if (o.kernel == x.h && o.kernel == x.w)
            node("GlobalAveragePool", {from}, made(o.y));
        else
            node("AveragePool", {from}, made(o.y), window(o.kernel, o.stride, o.pad));
    }
    void add(const PadShortcut& o) {
        const int64_t channels = graph_.values[o.x].c, more = graph_.values[o.y].c - channels;
        std::string x = of(o.x);
        const std::string y = made(o.y);
        if (o.stride > 1) {
            node("AveragePool", {x}, y + "_pooled", window(o.stride, o.stride, 0));
            x = y + "_pooled";
        }
        const int64_t pads[] = {0, 0, 0, 0, 0, more, 0, 0}, dims[] = {8};
        append_constant<int64_t>(y + "_pads", type_i64, pads, dims);
        node("Pad", {x, y + "_pads"}, y);
    }
    void add(const Linear& o) {
        const std::string x = of(o.x), y = made(o.y);
        node("Flatten", {x}, y + "_flat", {attribute("axis", int64_t(1))});
        std::vector<std::string> inputs = {y + "_flat", param(o.weight)};
        if (o.bias != none) inputs.push_back(param(o.bias));
        node("Gemm", inputs, y, {attribute("transB", int64_t(1))});
    }
    void add(const Dropout& o) { names_[o.y] = of(o.x); }
    void add(const SoftmaxXent&) {}

    const Graph& graph_;
    const std::vector<std::vector<float>>& values_;  // by ParamId
    const DType dtype_;
    ProtoMessage out_;
    std::vector<std::string> names_;  // by ValueId
    std::map<ParamId, TorchEntry> layout_;
    bool has_gelu_constants_ = false;
};

/// Returns GraphProto.
ProtoMessage graph_message(const Graph& graph, const std::vector<std::vector<float>>& values, const OnnxOptions& o) {
    const Value& image = graph.values[graph.input];
    const bool pixels = !o.mean.empty();
    Writer writer(graph, values, o.dtype);
    writer.text(2, graph.model);
    const char* input = pixels ? "pixels" : "images";
    writer.message(11, value_info(input, pixels ? type_u8 : type_float, {image.c, image.h, image.w}));
    writer.message(12, value_info("logits", type_float, {graph.classes}));
    return writer.finish(pixels ? writer.normalized(input, o) : input);
}

ProtoMessage folded_message(const Graph& graph, const std::vector<std::vector<float>>& values, const OnnxOptions& o) {
    const FoldedModel folded = fold_batch_norms(graph, values);
    return graph_message(folded.graph, folded.values, o);
}

}  // namespace

std::string onnx_file(const Graph& graph, const std::vector<std::vector<float>>& values, const OnnxOptions& o) {
    constexpr size_t most_bytes = (size_t(1) << 31) - (size_t(1) << 20);  // protobuf's limit, less room for the rest
    constexpr int ir_version = 8, opset = 17;
    size_t bytes = 0;
    for (const auto& list : values) bytes += list.size() * size_of(o.dtype);
    if (bytes > most_bytes)
        fail(Exit::bad_input, "the model has " + std::to_string(bytes) +
                                  " bytes, and ONNX files have at most 2 GiB; export it as NAME.safetensors");
    ProtoMessage operators, model;
    operators.text(1, "");
    operators.number(2, opset);
    model.number(1, ir_version);
    model.text(2, o.producer);
    model.text(3, o.producer_version);
    model.message(7, (o.dtype == DType::f16 ? folded_message : graph_message)(graph, values, o));
    model.message(8, operators);
    for (const auto& [key, value] : o.metadata) {
        ProtoMessage entry;
        entry.text(1, key);
        entry.text(2, value);
        model.message(14, entry);
    }
    return model.bytes();
}

}  // namespace convoy
