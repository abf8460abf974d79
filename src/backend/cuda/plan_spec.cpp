#include "backend/cuda/plan_spec.h"

#include <algorithm>
#include <sstream>

namespace convoy::cuda {

std::string PlanSpec::family() const {
    constexpr const char* names[] = {"conv", "conv-data-gradient", "conv-weight-gradient", "norm", "norm-gradient"};
    return names[kind] + (' ' + std::string(name_of(type))) + (exact ? "-exact" : "") + (add ? " add" : "") +
           (relu ? " relu" : "") + (normalise ? " normalise" : "") + (statistics ? " statistics" : "");
}

std::string PlanSpec::key() const {
    std::ostringstream out;
    out << family() << " n" << x.n << ' ' << x.h << 'x' << x.w << 'x' << x.c;
    if (!is_norm()) out << "->" << y.h << 'x' << y.w << 'x' << y.c << " k" << kernel << " s" << stride << " p" << pad;
    if (kind == norm) out << " eps" << epsilon << " mom" << momentum;
    return out.str();
}

double PlanSpec::flops() const { return is_norm() ? 0 : 2.0 * double(y.count()) * kernel * kernel * x.c; }

PlanSpec conv_spec(PlanSpec::Kind kind, const Conv& op, const Shape& x, const Shape& y, DType type,
                   Precision precision) {
    PlanSpec s{kind, x, y, op.kernel, op.stride, op.pad, type};
    s.exact = precision == Precision::f32;
    return s;
}

PlanSpec linear_spec(PlanSpec::Kind kind, const Shape& x, int out, DType type, Precision precision) {
    const int stored = precision == Precision::f32 ? out : padded_channels(out);
    PlanSpec s{kind, {x.n, 1, 1, x.h * x.w * x.c}, {x.n, 1, 1, stored}, 1, 1, 0, type};
    s.exact = precision == Precision::f32;
    return s;
}

PlanSpec norm_spec(PlanSpec::Kind kind, const BatchNorm& op, const Shape& x, DType type) {
    PlanSpec s{kind, x, x};
    s.type = type;
    // No engine reads the ReLU's mask off y: if there is a residual, a kernel masks dy first.
    s.add = kind == PlanSpec::norm && op.residual != none;
    s.relu = op.act == Activation::relu && (kind == PlanSpec::norm || op.residual == none);
    s.epsilon = op.epsilon;
    s.momentum = op.momentum;
    return s;
}

bool sums_by_conv(const BatchNorm& op, DType type) { return type != DType::f32 && op.act != Activation::gelu; }

bool norm_in_conv(const BatchNorm& op, DType type) {
    return type == DType::f16 && op.act == Activation::relu && op.residual == none;
}

bool norm_by_cudnn(const BatchNorm& op, const Tensor& x, const Tensor* residual, Precision precision) {
    if (precision == Precision::f32 || precision == Precision::tf32 || x.shape.pixels() < 2 ||
        op.act == Activation::gelu)
        return false;
    return op.residual == none || (residual->shape == x.shape && residual->padding == x.padding && op.residual != op.x);
}

CopyShape weight_copy(const Shape& weight, const Shape& x, const Shape& y, DType type) {
    const int64_t pixels = int64_t(weight.h) * weight.w;
    return {weight.n * pixels, y.c * pixels, weight.c, x.c, type};
}

CopyShape linear_copy(int out, const Value& x, DType type) {
    const int64_t pixels = int64_t(x.h) * x.w;
    return {out * pixels, padded_channels(out) * pixels, x.c, x.c + x.padding, type};
}

namespace {

class Lister {
public:
    Lister(const Graph& graph, int batch, Precision precision)
        : graph_(graph),
          batch_(batch),
          precision_(precision),
          written_(graph.values.size()),
          readers_(readers_of(graph)) {}

    std::vector<NamedPlan> list() {
        for (const Op& op : graph_.ops) std::visit([&](const auto& o) { forward(o); }, op);
        for (auto op = graph_.ops.rbegin(); op != graph_.ops.rend(); ++op) {
            std::visit([&](const auto& o) { backward(o); }, *op);
            for (ValueId v : inputs_of(*op)) written_[size_t(v)] = true;
        }
        return std::move(plans_);
    }

private:
    Shape stored(ValueId v) const { return graph_.values[size_t(v)].batched(batch_); }
    Tensor tensor(ValueId v) const { return {nullptr, stored(v), type(v), graph_.values[size_t(v)].padding}; }
    DType type(ValueId v) const { return graph_.values[size_t(v)].dtype; }
    std::string title(ParamId p) const {
        return graph_.params[size_t(p)].name.substr(0, graph_.params[size_t(p)].name.rfind('.'));
    }

    /// The op of that kind that writes y, if there is one.
    template <class Kind> const Kind* writer(ValueId y) const {
        for (const Op& op : graph_.ops)
            if (const auto* found = std::get_if<Kind>(&op); found && found->y == y) return found;
        return nullptr;
    }
    /// The convolution that feeds this norm, if it can write the norm's sums.
    const Conv* summing(const BatchNorm& norm) const {
        const auto* conv = sums_by_conv(norm, type(norm.x)) ? writer<Conv>(norm.x) : nullptr;
        return conv && conv->bias == none ? conv : nullptr;
    }
    /// The norm that produces x, if the convolution can normalise as it loads x.
    const BatchNorm* norm_in(const Conv& conv) const {
        const auto* norm = readers_[size_t(conv.x)] == 1 ? writer<BatchNorm>(conv.x) : nullptr;
        return norm && norm_in_conv(*norm, type(conv.x)) ? norm : nullptr;
    }

    void add(const std::string& name, const PlanSpec& spec) {
        const auto same =
            std::find_if(plans_.begin(), plans_.end(), [&](const NamedPlan& p) { return p.spec.key() == spec.key(); });
        if (same == plans_.end())
            plans_.push_back({name, spec});
        else
            ++same->uses;
    }

    PlanSpec spec_of(PlanSpec::Kind kind, const Conv& o) const {
        return conv_spec(kind, o, stored(o.x), stored(o.y), type(o.x), precision_);
    }
    /// Also the variant that normalises its input, if a norm feeds this convolution.
    void add_with_norm(const Conv& o, PlanSpec spec) {
        add(title(o.weight), spec);
        const BatchNorm* norm = norm_in(o);
        spec.normalise = true;
        if (norm && summing(*norm)) add(title(o.weight), spec);
    }
    void linear(PlanSpec::Kind kind, const Linear& o, bool accumulate = false) {
        PlanSpec spec = linear_spec(kind, stored(o.x), graph_.values[size_t(o.y)].c, type(o.x), precision_);
        spec.add = accumulate;
        add(title(o.weight), spec);
    }
    void norm(PlanSpec::Kind kind, const BatchNorm& o) {
        const Tensor x = tensor(o.x), residual = o.residual == none ? Tensor{} : tensor(o.residual);
        if (norm_by_cudnn(o, x, &residual, precision_)) add(title(o.scale), norm_spec(kind, o, stored(o.x), type(o.x)));
    }

    void forward(const Conv& o) { add(title(o.weight), spec_of(PlanSpec::conv, o)); }
    void forward(const Linear& o) { linear(PlanSpec::conv, o); }
    void forward(const BatchNorm& o) {
        norm(PlanSpec::norm, o);
        const Conv* before = summing(o);
        if (!before) return;
        PlanSpec spec = spec_of(PlanSpec::conv, *before);
        spec.statistics = true;
        add_with_norm(*before, spec);
    }
    template <class Other> void forward(const Other&) {}

    void backward(const Conv& o) {
        if (!graph_.params[size_t(o.weight)].frozen) add_with_norm(o, spec_of(PlanSpec::conv_weight_gradient, o));
        if (o.x == graph_.input) return;
        PlanSpec spec = spec_of(PlanSpec::conv_data_gradient, o);
        spec.add = written_[size_t(o.x)];
        add(title(o.weight), spec);
        spec.statistics = true;
        if (norm_in(o)) add(title(o.weight), spec);
    }
    void backward(const Linear& o) {
        linear(PlanSpec::conv_weight_gradient, o);
        if (o.x != graph_.input) linear(PlanSpec::conv_data_gradient, o, written_[size_t(o.x)]);
    }
    void backward(const BatchNorm& o) {
        // cuDNN's batch norms write gradients, the kernels can also add to them.
        if (!written_[size_t(o.x)] && (o.residual == none || !written_[size_t(o.residual)]))
            norm(PlanSpec::norm_gradient, o);
    }
    template <class Other> void backward(const Other&) {}

    const Graph& graph_;
    const int batch_;
    const Precision precision_;
    std::vector<bool> written_;  // by value: a later op wrote its gradient
    const std::vector<int> readers_;
    std::vector<NamedPlan> plans_;
};

}  // namespace

std::vector<NamedPlan> plans_of(const Graph& graph, int batch, Precision precision) {
    return Lister(graph, batch, precision).list();
}

}  // namespace convoy::cuda
