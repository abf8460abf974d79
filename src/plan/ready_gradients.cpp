#include "plan/ready_gradients.h"

namespace convoy {
namespace {

/// Returns the multiply-adds of an op's gradients, for one image.
double gradient_work(const Graph& graph, const Op& op) {
    double products = 0;
    ValueId x = none;
    if (const auto* conv = std::get_if<Conv>(&op)) {
        const Value& y = graph.values[conv->y];
        products = double(y.h) * y.w * double(graph.params[conv->weight].shape.count());
        x = conv->x;
    } else if (const auto* linear = std::get_if<Linear>(&op)) {
        products = double(graph.params[linear->weight].shape.count());
        x = linear->x;
    }
    return x == graph.input ? products : 2 * products;  // images need no data gradient
}

}  // namespace

std::vector<ReadyGradient> ready_gradients(const Graph& graph) {
    double all = 0;
    for (const Op& op : graph.ops) all += gradient_work(graph, op);
    std::vector<ReadyGradient> ready;
    double done = 0;
    for (size_t i = graph.ops.size(); i-- > 0;) {
        const Op& op = graph.ops[i];
        done += all > 0 ? gradient_work(graph, op) / all : 1.0 / double(graph.ops.size());
        for (const ParamId p : params_of(op)) {
            const Param& param = graph.params[p];
            if (param.has_gradient()) ready.push_back({param.shape.count(), std::min(done, 1.0)});
        }
    }
    return ready;
}

}  // namespace convoy
