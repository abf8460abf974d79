// Infers shapes, and answers the queries that passes make about ops.
#include "model/graph.h"

#include <algorithm>
#include <cmath>

namespace convoy {

size_t Graph::parameter_count() const {
    size_t n = 0;
    for (const Param& p : params) n += p.trained ? p.shape.count() : 0;
    return n;
}

size_t Graph::gradient_count() const {
    size_t n = 0;
    for (const Param& p : params) n += p.has_gradient() ? p.shape.count() : 0;
    return n;
}

double Graph::flops_per_image() const {
    double flops = 0;
    for (const Op& op : ops) {
        if (const auto* conv = std::get_if<Conv>(&op)) {
            const Value& y = values[conv->y];
            flops += 2.0 * y.h * y.w * double(params[conv->weight].shape.count());
        } else if (const auto* linear = std::get_if<Linear>(&op)) {
            flops += 2.0 * double(params[linear->weight].shape.count());
        }
    }
    return flops;
}

namespace {
template <class... F> struct overloaded : F... {
    using F::operator()...;
};
template <class... F> overloaded(F...) -> overloaded<F...>;  // clang 16 needs it
}  // namespace

std::vector<ValueId> inputs_of(const Op& op) {
    return std::visit(overloaded{[](const Add& o) { return std::vector<ValueId>{o.a, o.b}; },
                                 [](const BatchNorm& o) {
                                     return o.residual == none ? std::vector<ValueId>{o.x}
                                                               : std::vector<ValueId>{o.x, o.residual};
                                 },
                                 [](const auto& o) { return std::vector<ValueId>{o.x}; }},
                      op);
}

ValueId output_of(const Op& op) {
    return std::visit(overloaded{[](const SoftmaxXent&) { return none; }, [](const auto& o) { return o.y; }}, op);
}

std::vector<int> readers_of(const Graph& graph) {
    std::vector<int> readers(graph.values.size(), 0);
    for (const Op& op : graph.ops)
        for (ValueId x : inputs_of(op)) ++readers[x];
    return readers;
}

std::vector<int> writers_of(const Graph& graph) {
    std::vector<int> writers(graph.values.size(), none);
    for (size_t i = 0; i < graph.ops.size(); ++i)
        if (const ValueId y = output_of(graph.ops[i]); y != none) writers[y] = int(i);
    return writers;
}

GradientFlow gradient_flow(const Graph& graph) {
    GradientFlow flow;
    flow.wanted.assign(graph.values.size(), true);
    flow.wanted[graph.input] = false;
    for (const Op& op : graph.ops) {
        const ValueId y = output_of(op);
        if (y == none) continue;
        const std::vector<ValueId> inputs = inputs_of(op);
        const std::vector<ParamId> params = params_of(op);
        flow.wanted[y] =
            std::any_of(inputs.begin(), inputs.end(), [&](ValueId x) { return flow.wanted[x]; }) ||
            std::any_of(params.begin(), params.end(), [&](ParamId p) { return graph.params[p].has_gradient(); });
    }
    flow.accumulate.assign(graph.ops.size(), std::vector<bool>(graph.values.size(), false));
    std::vector<bool> written(graph.values.size(), false);
    for (size_t i = graph.ops.size(); i-- > 0;) {
        if (!flow.reaches(graph.ops[i])) continue;
        const std::vector<ValueId> inputs = inputs_of(graph.ops[i]);
        // An op that reads a value twice adds the second contribution itself.
        for (const ValueId x : inputs) flow.accumulate[i][x] = written[x];
        for (const ValueId x : inputs) written[x] = true;
    }
    return flow;
}

bool GradientFlow::reaches(const Op& op) const {
    const ValueId y = output_of(op);
    return wanted[y == none ? inputs_of(op).front() : y];
}

std::vector<ParamId> params_of(const Op& op) {
    std::vector<ParamId> all =
        std::visit(overloaded{[](const Conv& o) { return std::vector<ParamId>{o.weight, o.bias}; },
                              [](const Linear& o) { return std::vector<ParamId>{o.weight, o.bias}; },
                              [](const BatchNorm& o) { return std::vector<ParamId>{o.scale, o.bias, o.mean, o.var}; },
                              [](const auto&) { return std::vector<ParamId>{}; }},
                   op);
    std::erase(all, none);
    return all;
}

std::vector<ValueId> saved_of(const Op& op) {
    using Ids = std::vector<ValueId>;
    return std::visit(overloaded{[](const Conv& o) { return Ids{o.x}; }, [](const Linear& o) { return Ids{o.x}; },
                                 // Without a residual the ReLU's mask is recomputed from x; with
                                 // a residual it is read from y.
                                 [](const BatchNorm& o) {
                                     return o.act == Activation::relu && o.residual != none ? Ids{o.x, o.y} : Ids{o.x};
                                 },
                                 [](const Relu& o) { return Ids{o.y}; }, [](const Gelu& o) { return Ids{o.x}; },
                                 [](const SoftmaxXent& o) { return Ids{o.x}; }, [](const auto&) { return Ids{}; }},
                      op);
}

const char* name_of(const Op& op) {
    return std::visit(overloaded{[](const Conv&) { return "conv"; }, [](const BatchNorm&) { return "batch_norm"; },
                                 [](const Relu&) { return "relu"; }, [](const Gelu&) { return "gelu"; },
                                 [](const Scale&) { return "scale"; }, [](const Add&) { return "add"; },
                                 [](const Pool&) { return "pool"; }, [](const PadShortcut&) { return "pad_shortcut"; },
                                 [](const Linear&) { return "linear"; }, [](const Dropout&) { return "dropout"; },
                                 [](const SoftmaxXent&) { return "softmax_xent"; }},
                      op);
}

Init kaiming_fan_out(int kernel, int out) { return {Init::normal, std::sqrt(2.0f / float(kernel * kernel * out))}; }
Init identity_fan_in(int kernel, int in) { return {Init::identity, 1 / std::sqrt(float(kernel * kernel * in))}; }

namespace {
/// Returns the number of positions of a window of `kernel` along n pixels; 0 if it does not fit.
int window_places(int n, int kernel, int stride, int pad) {
    return n + 2 * pad < kernel ? 0 : (n + 2 * pad - kernel) / stride + 1;
}
}  // namespace

GraphBuilder::GraphBuilder(std::string model, int h, int w, int c, int classes) {
    graph_.model = std::move(model);
    graph_.classes = classes;
    graph_.input = add_value("input", h, w, c);
}

ValueId GraphBuilder::add_value(const std::string& name, int h, int w, int c) {
    if (h < 1 || w < 1)
        fail(Exit::bad_input, "model " + graph_.model + ": the input is too small: nothing is left of it at " + name +
                                  "; use larger images or --stem cifar");
    graph_.values.push_back({name, h, w, c});
    return int(graph_.values.size()) - 1;
}

ParamId GraphBuilder::add_param(const std::string& name, Shape shape, Init init, bool trained, bool is_weight) {
    graph_.params.push_back({name, shape, init, trained, is_weight});
    return int(graph_.params.size()) - 1;
}

ValueId GraphBuilder::conv(const std::string& name, ValueId x, int out, int kernel, int stride, int pad, Init init,
                           bool bias) {
    const Value in = value(x);
    const ParamId weight = add_param(name + ".weight", {out, kernel, kernel, in.c}, init, true, true);
    graph_.params[weight].group = ParamGroup::filter;
    const float bound = 1.0f / std::sqrt(float(kernel * kernel * in.c));
    const ParamId b = bias ? add_param(name + ".bias", {1, 1, 1, out}, {Init::uniform, bound}) : none;
    const auto size = [&](int n) { return window_places(n, kernel, stride, pad); };
    const ValueId y = add_value(name, size(in.h), size(in.w), out);
    graph_.ops.push_back(Conv{x, y, weight, b, kernel, stride, pad});
    return y;
}

ValueId GraphBuilder::whitening_conv(const std::string& name, ValueId x, int kernel) {
    const ValueId y = conv(name, x, 2 * kernel * kernel * value(x).c, kernel, 1, 0, {Init::whitening, 0}, true);
    const Conv& op = std::get<Conv>(graph_.ops.back());
    Param &weight = graph_.params[op.weight], &bias = graph_.params[op.bias];
    weight.frozen = true;
    bias.init = {Init::constant, 0};
    bias.group = ParamGroup::whitening_bias;
    return y;
}

ValueId GraphBuilder::batch_norm(const std::string& name, ValueId x, float epsilon, float momentum, bool scaled) {
    const Value in = value(x);
    const Shape vector{1, 1, 1, in.c};
    const ParamId scale = add_param(name + ".scale", vector, {Init::constant, 1});
    const ParamId bias = add_param(name + ".bias", vector, {Init::constant, 0});
    graph_.params[scale].frozen = !scaled;
    graph_.params[bias].group = ParamGroup::norm_shift;
    const ParamId mean = add_param(name + ".mean", vector, {Init::constant, 0}, false);
    const ParamId var = add_param(name + ".var", vector, {Init::constant, 1}, false);
    const ValueId y = add_value(name, in.h, in.w, in.c);
    graph_.ops.push_back(BatchNorm{x, y, scale, bias, mean, var, epsilon, momentum});
    return y;
}

ValueId GraphBuilder::relu(ValueId x) {
    const Value in = value(x);
    const ValueId y = add_value(in.name + ".relu", in.h, in.w, in.c);
    graph_.ops.push_back(Relu{x, y});
    return y;
}

ValueId GraphBuilder::gelu(ValueId x) {
    const Value in = value(x);
    const ValueId y = add_value(in.name + ".gelu", in.h, in.w, in.c);
    graph_.ops.push_back(Gelu{x, y});
    return y;
}

ValueId GraphBuilder::scale(ValueId x, float factor) {
    const Value in = value(x);
    const ValueId y = add_value(in.name + ".scaled", in.h, in.w, in.c);
    graph_.ops.push_back(Scale{x, y, factor});
    return y;
}

ValueId GraphBuilder::add(ValueId a, ValueId b) {
    const Value in = value(a);
    require(in.h == value(b).h && in.w == value(b).w && in.c == value(b).c, "both terms of an add have one shape");
    const ValueId y = add_value(in.name + ".add", in.h, in.w, in.c);
    graph_.ops.push_back(Add{a, b, y});
    return y;
}

ValueId GraphBuilder::max_pool(ValueId x, int kernel, int stride, int pad) {
    const Value in = value(x);
    const auto size = [&](int n) { return window_places(n, kernel, stride, pad); };
    const ValueId y = add_value(in.name + ".pool", size(in.h), size(in.w), in.c);
    graph_.ops.push_back(Pool{Pool::max, x, y, kernel, stride, pad});
    return y;
}

ValueId GraphBuilder::global_average_pool(ValueId x) {
    const Value in = value(x);
    require(in.h == in.w, "a global pool takes square images");
    const ValueId y = add_value(in.name + ".pool", 1, 1, in.c);
    graph_.ops.push_back(Pool{Pool::average, x, y, in.h, in.h, 0});
    return y;
}

ValueId GraphBuilder::pad_shortcut(ValueId x, int channels, int stride) {
    const Value in = value(x);
    require(stride == 1 || (stride == 2 && in.h % 2 == 0 && in.w % 2 == 0),
            "a shortcut has stride 1, or 2 on even sizes");
    const ValueId y = add_value(in.name + ".shortcut", in.h / stride, in.w / stride, channels);
    graph_.ops.push_back(PadShortcut{x, y, stride});
    return y;
}

ValueId GraphBuilder::linear(const std::string& name, ValueId x, int out, bool bias, float given) {
    const Value in = value(x);
    const int features = in.h * in.w * in.c;
    const float bound = 1.0f / std::sqrt(float(features));
    const ParamId weight =
        add_param(name + ".weight", {out, 1, 1, features}, {Init::uniform, given > 0 ? given : bound}, true, true);
    graph_.params[weight].group = ParamGroup::linear;
    const ParamId b = bias ? add_param(name + ".bias", {1, 1, 1, out}, {Init::uniform, bound}) : none;
    const ValueId y = add_value(name, 1, 1, out);
    graph_.ops.push_back(Linear{x, y, weight, b});
    return y;
}

ValueId GraphBuilder::dropout(ValueId x, float p, bool whole_channels) {
    if (p <= 0) return x;
    const Value in = value(x);
    const ValueId y = add_value(in.name + ".dropout", in.h, in.w, in.c);
    graph_.ops.push_back(Dropout{x, y, p, whole_channels, dropouts_++});
    return y;
}

Graph GraphBuilder::finish(ValueId logits, float label_smoothing, bool sum_loss) {
    require(value(logits).h == 1 && value(logits).w == 1 && value(logits).c == graph_.classes,
            "logits are one number per class");
    graph_.ops.push_back(SoftmaxXent{logits, label_smoothing, sum_loss});
    return std::move(graph_);
}

}  // namespace convoy
