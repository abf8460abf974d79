#include "plan/work.h"

#include <algorithm>
#include <sstream>

namespace convoy {
namespace {

class Counter {
public:
    Counter(const Graph& graph, int batch) : graph_(graph), batch_(batch) {}

    void operator()(const Conv& op) {
        const Shape w = graph_.params[size_t(op.weight)].shape;
        products("conv", op.x, op.y, op.weight, 2.0 * double(batch_) * value(op.y).h * value(op.y).w * double(w.count()), op.bias);
    }
    void operator()(const Linear& op) {
        products("linear", op.x, op.y, op.weight, 2.0 * double(batch_) * double(graph_.params[size_t(op.weight)].shape.count()), op.bias);
    }
    void operator()(const BatchNorm& op) {
        const double residual = op.residual == none ? 0 : bytes(op.residual);
        // Statistics are a pass of their own, forward (over x) and backward (over x and dy).
        add("batch norm forward", 2 * bytes(op.x) + residual + bytes(op.y));
        const double mask = op.act == Activation::relu && op.residual != none ? 2 * bytes(op.y) : 0;
        add("batch norm gradient", 2 * (bytes(op.x) + bytes(op.y)) + mask + bytes(op.x) + residual);
    }
    void operator()(const Relu& op) {
        add("relu forward", bytes(op.x) + bytes(op.y));
        add("relu gradient", 2 * bytes(op.y) + bytes(op.x));
    }
    void operator()(const Add& op) {
        add("add forward", bytes(op.a) + bytes(op.b) + bytes(op.y));
        add("add gradient", bytes(op.y) + bytes(op.a) + bytes(op.b));
    }
    void operator()(const SoftmaxXent& op) {
        add("loss forward", bytes(op.x));
        add("loss gradient", 2 * bytes(op.x));
    }
    void operator()(const Pool& op) { moves("pool", op.x, op.y); }
    void operator()(const PadShortcut& op) { moves("shortcut", op.x, op.y); }
    void operator()(const Dropout& op) { moves("dropout", op.x, op.y); }
    /// An operation whose gradient is not counted apart: it reads x and writes y, and the other way round.
    template <class Other> void operator()(const Other& op) { moves(name_of(Op(op)), inputs_of(Op(op)).at(0), output_of(Op(op))); }

    WorkByClass work;

private:
    const Value& value(ValueId v) const { return graph_.values[size_t(v)]; }
    double bytes(ValueId v) const { return double(value(v).batched(batch_).count() * size_of(value(v).dtype)); }
    void add(const std::string& name, double moved, double flops = 0) {
        work[name].bytes += moved;
        work[name].flops += flops;
    }
    void moves(const std::string& name, ValueId x, ValueId y) {
        add(name + " forward", bytes(x) + bytes(y));
        add(name + " gradient", bytes(x) + bytes(y));
    }
    void products(const std::string& name, ValueId x, ValueId y, ParamId weight, double flops, ParamId bias) {
        const double w = double(graph_.params[size_t(weight)].shape.count()), in_type = w * double(size_of(value(x).dtype)),
                     gradient = w * sizeof(float);
        add(name + " forward", bytes(x) + in_type + bytes(y), flops);
        add(name + " weight gradient", bytes(x) + bytes(y) + gradient, flops);
        if (x != graph_.input) add(name + " data gradient", bytes(y) + in_type + bytes(x), flops);  // nobody wants that of the images
        if (bias != none) add(name + " bias gradient", bytes(y));
    }

    const Graph& graph_;
    const int batch_;
};

/// Names of ops as they stand in the names of steps: those of parameters without their last part, and of values.
bool is_title(const std::string& word, const Graph& graph) {
    return std::any_of(graph.params.begin(), graph.params.end(),
                       [&](const Param& p) { return p.name.substr(0, p.name.rfind('.')) == word; }) ||
           std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& v) { return v.name == word; });
}

}  // namespace

WorkByClass work_of_step(const Graph& graph, int batch, int ranks, const OptimizerSpec& optimizer) {
    Counter counter(graph, batch);
    for (const Op& op : graph.ops) std::visit(counter, op);
    const Value& input = graph.values[size_t(graph.input)];
    const double pixels = double(batch) * input.h * input.w * input.c, floats = double(graph.trained_count()) * sizeof(float);
    counter.work["gather"].bytes = pixels + double(input.batched(batch).count() * size_of(input.dtype));
    counter.work["optimizer"].bytes =
        floats * (1 + 2 + 2 * optimizer.state_per_element());                            // the gradient is read, the others written, too
    if (ranks > 1) counter.work["all-reduce"].bytes = 2 * floats * (ranks - 1) / ranks;  // sent by each rank of a ring
    return counter.work;
}

std::string class_of_step(const std::string& step_name, const Graph& graph) {
    std::istringstream in(step_name);
    std::string name;
    bool of_an_op = false;
    for (std::string word; in >> word;) {
        if (!name.empty() && is_title(word, graph)) {
            of_an_op = true;
            break;
        }
        if (word[0] >= '0' && word[0] <= '9') break;  // "all-reduce 123 KiB"
        name += (name.empty() ? "" : " ") + word;
    }
    if (name == "wait for all-reduce") return "all-reduce";
    const bool directed = name.ends_with("forward") || name.ends_with("gradient");
    return (of_an_op || name == "loss") && !directed ? name + " forward" : name;
}

}  // namespace convoy
