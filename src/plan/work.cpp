#include "plan/work.h"

namespace convoy {
namespace {

class Counter {
public:
    Counter(const Graph& graph, int batch, const Algorithms& algorithms)
        : graph_(graph), batch_(batch), algorithms_(algorithms), flow_(gradient_flow(graph)) {}
    void count(int op) {
        op_ = op;
        backward_ = flow_.reaches(graph_.ops[op]);
        std::visit(*this, graph_.ops[op]);
    }

    void operator()(const Conv& op) {
        const Shape w = graph_.params[op.weight].shape;
        multiplications("conv", op.x, op.y, op.weight,
                        2.0 * double(batch_) * value(op.y).h * value(op.y).w * double(w.count()), op.bias);
    }
    void operator()(const Linear& op) {
        multiplications("linear", op.x, op.y, op.weight,
                        2.0 * double(batch_) * double(graph_.params[op.weight].shape.count()), op.bias);
    }
    void operator()(const BatchNorm& op) {
        const double residual = op.residual == none ? 0 : bytes(op.residual);
        if (op.fixed) {
            add("batch norm forward", bytes(op.x) + residual + bytes(op.y));
            gradient("batch norm", (op.act == Activation::identity ? 1 : 2) * bytes(op.y) + bytes(op.x) + residual);
            return;
        }
        // Statistics take a separate pass: over x in forward, over x and dy in backward. If ReLU's
        // mask is read from y, only the first pass of backward reads y. That pass writes the masked
        // dy, which is the residual's gradient, and the second pass reads it.
        add("batch norm forward", 2 * bytes(op.x) + residual + bytes(op.y));
        const double mask = op.act == Activation::relu && op.residual != none ? bytes(op.y) : 0;
        gradient("batch norm", 2 * (bytes(op.x) + bytes(op.y)) + mask + bytes(op.x) + residual);
    }
    void operator()(const Relu& op) {
        add("relu forward", bytes(op.x) + bytes(op.y));
        gradient("relu", 2 * bytes(op.y) + bytes(op.x));
    }
    void operator()(const Add& op) {
        add("add forward", bytes(op.a) + bytes(op.b) + bytes(op.y));
        gradient("add", bytes(op.y) + bytes(op.a) + bytes(op.b));
    }
    void operator()(const SoftmaxXent& op) {
        add("loss forward", bytes(op.x));
        gradient("loss", 2 * bytes(op.x));
    }
    void operator()(const PadShortcut& op) { moves("shortcut", op.x, op.y); }
    /// Counts any other op: forward reads x and writes y; the gradient reads dy and writes dx.
    template <class Other> void operator()(const Other& op) {
        moves(name_of(Op(op)), inputs_of(Op(op)).at(0), output_of(Op(op)));
    }

    WorkByClass work;

private:
    const Value& value(ValueId v) const { return graph_.values[v]; }
    double bytes(ValueId v) const { return double(value(v).batched(batch_).count() * size_of(value(v).dtype)); }
    Work& add(const std::string& name, double moved) {
        work[name].bytes += moved;
        return work[name];
    }
    /// Adds to the class of an op's gradient, unless its backward has nothing to write.
    void gradient(const std::string& name, double moved) {
        if (backward_) add(name + " gradient", moved);
    }
    void multiply(const std::string& name, LaunchPhase direction, double moved, double flops, DType type) {
        Work& w = add(name, moved);
        w.flops += flops;
        const Multiplications multiplications = algorithms_.multiplications(op_, direction);
        (multiplications.in_f32 && type != DType::f32 ? w.f32 : w.typed) += multiplications.of_direct * flops;
    }
    void moves(const std::string& name, ValueId x, ValueId y) {
        add(name + " forward", bytes(x) + bytes(y));
        gradient(name, bytes(x) + bytes(y));
    }
    void multiplications(const std::string& name, ValueId x, ValueId y, ParamId weight, double flops, ParamId bias) {
        const double w = double(graph_.params[weight].shape.count()), in_type = w * double(size_of(value(x).dtype)),
                     dw = w * sizeof(float);
        const DType type = value(x).dtype;
        multiply(name + " forward", LaunchPhase::forward, bytes(x) + in_type + bytes(y), flops, type);
        if (!backward_) return;
        if (!graph_.params[weight].frozen)
            multiply(name + " weight gradient", LaunchPhase::weight_gradient, bytes(x) + bytes(y) + dw, flops, type);
        if (flow_.wanted[x])
            multiply(name + " data gradient", LaunchPhase::data_gradient, bytes(y) + in_type + bytes(x), flops, type);
        if (bias != none && !graph_.params[bias].frozen) add(name + " bias gradient", bytes(y));
    }

    const Graph& graph_;
    const int batch_;
    const Algorithms& algorithms_;
    const GradientFlow flow_;
    int op_ = none;
    bool backward_ = true;  ///< the op's backward writes something
};

/// Returns the word for an op in the names of classes.
std::string word_for(const Op& op) {
    if (std::holds_alternative<BatchNorm>(op)) return "batch norm";
    if (std::holds_alternative<PadShortcut>(op)) return "shortcut";
    if (std::holds_alternative<SoftmaxXent>(op)) return "loss";
    return name_of(op);
}

const char* word_for(LaunchPhase phase) {
    switch (phase) {
        case LaunchPhase::forward: return "forward";
        case LaunchPhase::bias: return "bias forward";
        case LaunchPhase::gradient: return "gradient";
        case LaunchPhase::data_gradient: return "data gradient";
        case LaunchPhase::weight_gradient: return "weight gradient";
        case LaunchPhase::bias_gradient: return "bias gradient";
        case LaunchPhase::gather: return "gather";
        case LaunchPhase::zero: return "zero";
        case LaunchPhase::conversion: return "gradients to f32";
        case LaunchPhase::requests: return "requests";
        case LaunchPhase::all_reduce: return "all-reduce";
        case LaunchPhase::progress: return "all-reduce progress";
        case LaunchPhase::optimizer: return "optimizer";
        case LaunchPhase::look_ahead: return "look-ahead";
        case LaunchPhase::record: return "record";
        case LaunchPhase::totals: return "totals";
        case LaunchPhase::other: return "other";
    }
    return "other";
}

}  // namespace

WorkByClass work_of_step(const Graph& graph, int batch, int ranks, const OptimizerSpec& optimizer,
                         const Algorithms& algorithms) {
    Counter counter(graph, batch, algorithms);
    for (size_t op = 0; op < graph.ops.size(); ++op) counter.count(int(op));
    const Value& input = graph.values[graph.input];
    const double pixels = double(batch) * input.h * input.w * input.c,
                 floats = double(graph.gradient_count()) * sizeof(float);
    counter.work["gather"].bytes = pixels + double(input.batched(batch).count() * size_of(input.dtype));
    counter.work["optimizer"].bytes =
        floats * (1 + 2 + 2 * optimizer.state_per_element());  // gradient read; weight and state read and written
    // bytes that each rank of a ring sends
    if (ranks > 1) counter.work["all-reduce"].bytes = 2 * floats * (ranks - 1) / ranks;
    return counter.work;
}

std::string class_of_launch(const LaunchId& launch, const Graph& graph) {
    if (launch.op == none) return word_for(launch.phase);
    std::string ops = word_for(graph.ops[launch.op]);
    if (launch.fused_op != none) {
        const std::string other = word_for(graph.ops[launch.fused_op]);
        ops = launch.fused_op < launch.op ? other + " and " + ops : ops + " and " + other;
    }
    return ops + " " + word_for(launch.phase);
}

std::vector<std::string> parts_of_launch(const LaunchId& launch, const Graph& graph) {
    if (launch.fused_op == none) return {};
    return {class_of_launch({launch.op, launch.phase}, graph), class_of_launch({launch.fused_op, launch.phase}, graph)};
}

}  // namespace convoy
