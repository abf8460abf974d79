#include "model/precision.h"

namespace convoy {
namespace {

struct Row {
    const char* name;
    Precision precision;
    DType type;
};
constexpr Row table[] = {{"f32", Precision::f32, DType::f32},
                         {"tf32", Precision::tf32, DType::f32},
                         {"bf16", Precision::bf16, DType::bf16},
                         {"f16", Precision::f16, DType::f16}};

}  // namespace

const char* name_of(Precision p) { return table[int(p)].name; }

Graph with_precision(Graph graph, Precision p, int channel_multiple) {
    const DType type = table[int(p)].type;
    for (Value& v : graph.values) {
        v.dtype = type;
        v.padding = p == Precision::f32 ? 0 : (channel_multiple - v.c % channel_multiple) % channel_multiple;
    }
    ValueId f32 = none;  // the logits, and the values that become the logits by scaling alone
    for (auto op = graph.ops.rbegin(); op != graph.ops.rend(); ++op) {
        if (const auto* loss = std::get_if<SoftmaxXent>(&*op))
            f32 = loss->x;
        else if (const auto* scale = std::get_if<Scale>(&*op); scale && scale->y == f32)
            f32 = scale->x;
        else
            continue;
        graph.values[f32].dtype = DType::f32;
        graph.values[f32].padding = 0;
    }
    return graph;
}

}  // namespace convoy
