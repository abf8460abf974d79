#include "model/fold.h"

#include <cmath>

namespace convoy {
namespace {

/// Multiplies the filters of a convolution [out, kh, kw, in] by one factor each.
void scale_filters(std::vector<float>& weight, const std::vector<float>& factors) {
    const size_t filter = weight.size() / factors.size();
    for (size_t i = 0; i < weight.size(); ++i) weight[i] *= factors[i / filter];
}

/// Folds `norm` into `conv`, which then writes the norm's output.
void fold_into(FoldedModel& model, Conv& conv, const BatchNorm& norm) {
    const ChannelFactors by_channel = factors_of(norm, model.values);
    scale_filters(model.values[conv.weight], by_channel.factor);
    std::vector<float> bias = by_channel.shift;
    if (conv.bias == none) {
        std::string name = model.graph.params[conv.weight].name;
        name.replace(name.rfind('.'), std::string::npos, ".bias");
        conv.bias = ParamId(model.graph.params.size());
        model.graph.params.push_back({name, {1, 1, 1, int(bias.size())}, {Init::constant, 0}, true, false});
        model.values.emplace_back();
    } else {
        const std::vector<float>& own = model.values[conv.bias];
        for (size_t c = 0; c < bias.size(); ++c) bias[c] = std::fma(by_channel.factor[c], own[c], bias[c]);
    }
    model.values[conv.bias] = std::move(bias);
    conv.y = norm.y;
}

}  // namespace

ChannelFactors factors_of(const BatchNorm& norm, const std::vector<std::vector<float>>& values) {
    const auto of = [&](ParamId id, size_t channel) { return double(values[id][channel]); };
    const size_t channels = values[norm.scale].size();
    ChannelFactors all;
    for (size_t c = 0; c < channels; ++c) {
        const double factor = of(norm.scale, c) / std::sqrt(of(norm.var, c) + double(norm.epsilon));
        all.factor.push_back(float(factor));
        all.shift.push_back(float(of(norm.bias, c) - of(norm.mean, c) * factor));
    }
    return all;
}

FoldedModel fold_batch_norms(const Graph& graph, const std::vector<std::vector<float>>& values) {
    const std::vector<int> readers = readers_of(graph), writers = writers_of(graph);
    FoldedModel folded{graph, values};
    std::vector<Op> ops;
    std::vector<int> place(graph.ops.size(), none);  // [ops of the given graph]: index in `ops`
    for (size_t i = 0; i < graph.ops.size(); ++i) {
        const auto* norm = std::get_if<BatchNorm>(&graph.ops[i]);
        const int writer = norm ? writers[norm->x] : none;
        if (norm) require(norm->residual == none && norm->act == Activation::identity, "the graph is not fused");
        if (writer != none && readers[norm->x] == 1 && std::holds_alternative<Conv>(graph.ops[writer])) {
            fold_into(folded, std::get<Conv>(ops[place[writer]]), *norm);
            continue;
        }
        place[i] = int(ops.size());
        ops.push_back(graph.ops[i]);
    }
    folded.graph.ops = std::move(ops);
    return folded;
}

}  // namespace convoy
