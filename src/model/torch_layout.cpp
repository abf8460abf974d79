#include "model/torch_layout.h"

#include "model/torch_names.h"

namespace convoy {
namespace {

/// Calls `copy(ours, theirs)` with the two indices of each element.
template <class Copy> void each_element(Shape order, Copy copy) {
    const size_t n = size_t(order.n), pixels = size_t(order.h) * size_t(order.w), channels = size_t(order.c);
    for (size_t i = 0; i < n; ++i)
        for (size_t c = 0; c < channels; ++c)
            for (size_t p = 0; p < pixels; ++p) copy((i * pixels + p) * channels + c, (i * channels + c) * pixels + p);
}

}  // namespace

std::vector<TorchEntry> torch_layout(const Graph& graph) {
    std::vector<TorchEntry> entries;
    const auto shape_of = [&](ParamId id) { return graph.params[id].shape; };
    const auto add = [&](ParamId id, std::vector<int64_t> dims, Shape order) {
        entries.push_back({torch_name(graph.model, graph.params[id].name), std::move(dims), id, order});
    };
    const auto add_vector = [&](ParamId id) {
        if (id != none) add(id, {shape_of(id).c}, shape_of(id));
    };
    for (const Op& op : graph.ops) {
        if (const auto* conv = std::get_if<Conv>(&op)) {
            const Shape s = shape_of(conv->weight);
            add(conv->weight, {s.n, s.c, s.h, s.w}, s);
            add_vector(conv->bias);
        } else if (const auto* linear = std::get_if<Linear>(&op)) {
            const Shape s = shape_of(linear->weight);
            const Value& x = graph.values[linear->x];
            add(linear->weight, {s.n, s.c}, {s.n, x.h, x.w, x.c});
            add_vector(linear->bias);
        } else if (const auto* norm = std::get_if<BatchNorm>(&op)) {
            for (const ParamId id : {norm->scale, norm->bias, norm->mean, norm->var}) add_vector(id);
            const std::string& mean = entries.back().name;
            entries.push_back({mean.substr(0, mean.rfind('.')) + ".num_batches_tracked", {}, none, {}});
        }
    }
    return entries;
}

std::vector<float> to_torch_order(const std::vector<float>& values, Shape order) {
    std::vector<float> theirs(values.size());
    each_element(order, [&](size_t from, size_t to) { theirs[to] = values[from]; });
    return theirs;
}

std::vector<float> from_torch_order(const std::vector<float>& values, Shape order) {
    std::vector<float> ours(values.size());
    each_element(order, [&](size_t to, size_t from) { ours[to] = values[from]; });
    return ours;
}

}  // namespace convoy
