// Every op that kernels/ has, at the sizes of op_cases.cpp, in every layout of memory and every
// order of threads: outputs against scalar loops in double, gradients against the CPU backend.
// Outputs begin as NaN, padding included, and padding must end as zero.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

/// One op of one case with its operands as kernels take them.
struct Kernels {
    const OpCase& c;
    const Layout layout;
    std::vector<KernelTensor> values, gradients;  // by id
    std::vector<Floats> params, param_gradients;
    std::vector<int32_t> labels{};
    bool accumulate = false;  // adds to every input's gradient
    BatchStats stats{};
    Counters counters{};
    Floats mean, invstd;
    std::vector<unsigned char> workspace{}, index{};

    Kernels(const OpCase& op_case, Layout l) : c(op_case), layout(l) {
        for (const Value& v : c.graph.values) {
            values.emplace_back(v.batched(c.batch), layout);
            gradients.emplace_back(v.batched(c.batch), layout);
        }
        for (const Param& p : c.graph.params) {
            params.emplace_back(p.shape.count());
            param_gradients.emplace_back(p.shape.count(), NAN);
        }
        counters.step = c.setting.step;
        mean = invstd = Floats(size_t(value(inputs_of(c.op())[0]).shape.c), NAN);
    }
    const Tensor& value(ValueId id) const { return values[id].tensor(); }
    const Tensor& gradient(ValueId id) const { return gradients[id].tensor(); }
    int channels(ValueId id) const { return c.graph.values[id].c; }
    void* space(size_t bytes) {
        workspace.assign(bytes, 0xff);
        return workspace.data();
    }

    kernels::BatchNormArgs args(const BatchNorm& op) {
        kernels::BatchNormArgs n;
        n.x = value(op.x);
        n.y = value(op.y);
        n.channels = channels(op.x);
        if (op.residual != none) {
            n.residual = value(op.residual);
            n.residual_channels = channels(op.residual);
        }
        n.act = op.act == Activation::relu   ? kernels::Act::relu
                : op.act == Activation::gelu ? kernels::Act::gelu
                                             : kernels::Act::identity;
        n.scale = params[op.scale].data();
        n.bias = params[op.bias].data();
        n.mean = mean.data();
        n.invstd = invstd.data();
        n.running_mean = params[op.mean].data();
        n.running_var = params[op.var].data();
        n.epsilon = op.epsilon;
        n.momentum = op.momentum;
        return n;
    }
    void forward(const BatchNorm& op) {
        if (c.setting.training && op.fixed)
            kernels::batch_norm_fixed(args(op), nullptr);
        else if (c.setting.training)
            kernels::batch_norm_forward(args(op), space(kernels::batch_norm_workspace(value(op.x).shape)), nullptr);
        else
            kernels::batch_norm_inference(args(op), nullptr);
    }
    void backward(const BatchNorm& op) {
        kernels::BatchNormGradients g;
        g.dy = gradient(op.y);
        g.dx = gradient(op.x);
        g.accumulate_dx = accumulate || op.residual == op.x;
        if (op.residual != none) {
            g.dresidual = gradient(op.residual);
            g.accumulate_dresidual = accumulate;
        }
        g.dscale = c.graph.params[op.scale].frozen ? nullptr : param_gradients[op.scale].data();
        g.dbias = c.graph.params[op.bias].frozen ? nullptr : param_gradients[op.bias].data();
        const auto backward = op.fixed ? kernels::batch_norm_fixed_backward : kernels::batch_norm_backward;
        backward(args(op), g, space(kernels::batch_norm_workspace(value(op.x).shape)), nullptr);
    }
    void forward(const Relu& op) { kernels::relu_forward(value(op.x), value(op.y), nullptr); }
    void backward(const Relu& op) {
        kernels::relu_backward(value(op.y), gradient(op.y), gradient(op.x), accumulate, nullptr);
    }
    void forward(const Gelu& op) { kernels::gelu_forward(value(op.x), value(op.y), nullptr); }
    void backward(const Gelu& op) {
        kernels::gelu_backward(value(op.x), gradient(op.y), gradient(op.x), accumulate, nullptr);
    }
    void forward(const Scale& op) { kernels::scale(value(op.x), op.factor, value(op.y), false, nullptr); }
    void backward(const Scale& op) { kernels::scale(gradient(op.y), op.factor, gradient(op.x), accumulate, nullptr); }
    void forward(const Add& op) { kernels::add_forward(value(op.a), value(op.b), value(op.y), nullptr); }
    void backward(const Add& op) {
        kernels::add_backward(gradient(op.y), gradient(op.a), accumulate, nullptr);
        kernels::add_backward(gradient(op.y), gradient(op.b), accumulate || op.a == op.b, nullptr);
    }
    void forward(const Pool& op) {
        if (op.kind == Pool::max) index.assign(value(op.y).count(), 0xff);
        kernels::pool_forward(op, value(op.x), value(op.y), op.kind == Pool::max ? index.data() : nullptr, nullptr);
    }
    void backward(const Pool& op) {
        kernels::pool_backward(op, gradient(op.y), gradient(op.x), op.kind == Pool::max ? index.data() : nullptr,
                               accumulate, nullptr);
    }
    void forward(const PadShortcut& op) { kernels::pad_shortcut_forward(op.stride, value(op.x), value(op.y), nullptr); }
    void backward(const PadShortcut& op) {
        kernels::pad_shortcut_backward(op.stride, gradient(op.y), gradient(op.x), channels(op.x), accumulate, nullptr);
    }
    void drop(const Dropout& op, const Tensor& in, const Tensor& out, bool add) {
        kernels::dropout(op, in, out, channels(op.x), c.setting.seed, c.setting.first, &counters, add, nullptr);
    }
    void forward(const Dropout& op) { drop(op, value(op.x), value(op.y), false); }
    void backward(const Dropout& op) { drop(op, gradient(op.y), gradient(op.x), accumulate); }
    kernels::LossArgs args(const SoftmaxXent& op) {
        return {value(op.x), channels(op.x), labels.data(), op.label_smoothing};
    }
    void forward(const SoftmaxXent& op) {
        kernels::loss_forward(args(op), &stats, space(kernels::loss_workspace(c.batch)), nullptr);
    }
    void backward(const SoftmaxXent& op) {
        kernels::loss_backward(args(op), gradient(op.x), op.sum ? 1 : c.setting.global_batch, nullptr, nullptr);
    }
    // Matrix products and convolutions are not in kernels/; the bias gradient has a separate test.
    void forward(const Linear&) {}
    void backward(const Linear&) {}
    void forward(const Conv&) {}
    void backward(const Conv&) {}
};

class KernelOps : public testing::TestWithParam<size_t> {
protected:
    const OpCase& c_ = op_cases()[GetParam()];
    std::unique_ptr<Backend> cpu_ = make_test_backend("cpu");
    const ValueId y_ = output_of(c_.op());

    /// Puts the case's data on both sides, rounded to the stored type.
    Kernels prepared(const Layout& layout, Pair& pair) const {
        Kernels k(c_, layout);
        for (const ValueId id : c_.inputs()) {
            Floats v(pair.reference.values[id].begin(), pair.reference.values[id].end());
            v = rounded(v, layout.type);
            k.values[id].put(v);
            pair.backend.set_value(id, v);
            pair.reference.values[id] = widened(v);
        }
        for (const ParamId id : params_of(c_.op()))
            k.params[id].assign(pair.reference.params[id].begin(), pair.reference.params[id].end());
        k.labels = pair.reference.labels;
        return k;
    }
};

TEST_P(KernelOps, ForwardIsTheReference) {
    for (const Layout& layout : layouts()) {
        SCOPED_TRACE(name_of(layout));
        Pair pair(*cpu_, c_, c_.setting);
        const std::vector<Floats> got = in_every_order([&] {
            Kernels k = prepared(layout, pair);
            std::visit([&](const auto& op) { k.forward(op); }, c_.op());
            EXPECT_TRUE(y_ == none || k.values[y_].padding_is_zero());
            std::vector<Floats> results = {y_ == none ? Floats{k.stats.loss_sum, k.stats.correct, k.stats.top5}
                                                      : k.values[y_].get()};
            for (const Floats& p : k.params) results.push_back(p);
            return results;
        });
        pair.reference.run();
        if (y_ == none) {
            EXPECT_NEAR(got[0][0], pair.reference.loss_sum, c_.value_tolerance * pair.reference.loss_sum);
            EXPECT_EQ(got[0][1], float(pair.reference.correct));
            EXPECT_EQ(got[0][2], float(pair.reference.top5));
        } else {
            const Doubles& expected = pair.reference.values[y_];
            double most = 0;
            for (double e : expected) most = std::max(most, std::abs(e));
            for (size_t i = 0; i < expected.size();
                 ++i)  // the case's tolerance, and the output's rounding beyond f32's
                ASSERT_NEAR(
                    got[0][i], expected[i],
                    c_.value_tolerance * most +
                        (layout.type == DType::f32 ? 0 : rounding(layout.type) * std::abs(expected[i]) + 0x1p-25))
                    << i;  // 2^-25: half the smallest number of f16
        }
        for (size_t id = 0; id < pair.reference.params.size(); ++id)  // running statistics: one rounding of the update
            for (size_t i = 0; i < pair.reference.params[id].size(); ++i)
                EXPECT_NEAR(got[1 + id][i], pair.reference.params[id][i],
                            3e-7 * (1 + std::abs(pair.reference.params[id][i])));
    }
}

TEST_P(KernelOps, BackwardIsTheReference) {
    for (const Layout& layout : layouts())
        for (const bool accumulate : {false, true}) {
            if (accumulate && y_ == none) continue;
            SCOPED_TRACE(name_of(layout) + (accumulate ? ", added" : ""));
            Pair pair(*cpu_, c_, c_.setting);
            const auto there = [&](ValueId id) {
                return rounded(normals(c_.graph.values[id].batched(c_.batch).count(), 500 + uint64_t(id)), layout.type);
            };
            const Floats dy = y_ == none
                                  ? Floats{}
                                  : rounded(normals(c_.graph.values[y_].batched(c_.batch).count(), 300), layout.type);
            const std::vector<Floats> got = in_every_order([&] {
                Kernels k = prepared(layout, pair);
                k.accumulate = accumulate;
                if (y_ != none) k.gradients[y_].put(dy);
                for (const ValueId id : c_.inputs())
                    if (accumulate) k.gradients[id].put(there(id));
                std::visit([&](const auto& op) { k.forward(op), k.backward(op); }, c_.op());
                std::vector<Floats> results;
                for (const ValueId id : c_.inputs()) {
                    EXPECT_TRUE(k.gradients[id].padding_is_zero());
                    results.push_back(k.gradients[id].get());
                }
                for (const ParamId id : c_.trained()) results.push_back(k.param_gradients[id]);
                return results;
            });
            if (y_ != none) pair.backend.set_gradient(y_, dy);
            pair.backend.forward();
            pair.backend.backward();
            // Both are within the case's tolerance of the truth.
            const double tolerance = 2 * c_.gradient_tolerance;
            size_t at = 0;
            for (const ValueId id : c_.inputs()) {
                Floats expected = pair.backend.gradient(id);
                const double scale = length(expected);
                double stored = layout.type == DType::f32 ? 0 : rounding(layout.type);
                if (accumulate) {
                    const Floats before = there(id);
                    for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
                    stored = rounding(layout.type);
                }
                EXPECT_LE(distance(got[at++], expected), tolerance * (scale + 1e-3) + stored * length(expected))
                    << "value " << id;
            }
            for (const ParamId id : c_.trained()) {
                const Floats& expected = pair.backend.param_gradient(id);
                EXPECT_LE(distance(got[at++], expected), tolerance * (length(expected) + 1e-3)) << "parameter " << id;
            }
        }
}

class KernelOpsOfNorms : public KernelOps {};

TEST_P(KernelOpsOfNorms, InferenceIsTheReference) {
    OpCase inference = c_;
    inference.setting.training = false;
    for (const Layout& layout : layouts()) {
        SCOPED_TRACE(name_of(layout));
        Pair pair(*cpu_, c_, inference.setting);
        const Floats got = in_every_order([&] {
            const Kernels data = prepared(layout, pair);
            Kernels k(inference, layout);
            k.params = data.params;
            for (const ValueId id : c_.inputs()) k.values[id].put(data.values[id].get());
            k.forward(std::get<BatchNorm>(c_.op()));
            EXPECT_TRUE(k.values[y_].padding_is_zero());
            EXPECT_EQ(k.params, data.params);
            return std::vector<Floats>{k.values[y_].get()};
        })[0];
        pair.reference.run();
        double most = 0;
        for (double e : pair.reference.values[y_]) most = std::max(most, std::abs(e));
        for (size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], pair.reference.values[y_][i],
                        c_.value_tolerance * most +
                            (layout.type == DType::f32 ? 0 : rounding(layout.type) * std::abs(got[i]) + 0x1p-25));
    }
}

TEST(KernelOpsOfBias, GradientIsTheSumOfTheRows) {
    for (const Shape shape : {Shape{1, 1, 1, 10}, Shape{5, 3, 7, 21}, Shape{2, 9, 11, 1}, Shape{3, 5, 5, 300}})
        for (const Layout& layout : layouts()) {
            SCOPED_TRACE(name_of(layout));
            const Floats values = rounded(normals(shape.count(), 1, 0.5f), layout.type);
            const Floats got = in_every_order([&] {
                const KernelTensor dy(shape, layout, values);
                Floats db(size_t(shape.c), NAN);
                std::vector<unsigned char> workspace(kernels::bias_gradient_workspace(dy.tensor().shape), 0xff);
                kernels::bias_gradient(dy.tensor(), shape.c, db.data(), workspace.data(), nullptr);
                return std::vector<Floats>{db};
            })[0];
            for (size_t c = 0; c < got.size(); ++c) {
                double sum = 0, size = 0;
                for (size_t i = c; i < values.size(); i += got.size()) {
                    sum += double(values[i]);
                    size += std::abs(double(values[i]));
                }
                EXPECT_NEAR(got[c], sum, 3e-7 * size) << c;  // a few roundings of partial sums
            }
        }
}

template <class Wanted> std::vector<size_t> cases(Wanted wanted) {
    std::vector<size_t> all;
    for (size_t i = 0; i < op_cases().size(); ++i)
        if (op_cases()[i].type() == DType::f32 && wanted(op_cases()[i].op())) all.push_back(i);
    return all;
}
std::string name_of_case(const testing::TestParamInfo<size_t>& test) { return op_cases()[test.param].name; }

INSTANTIATE_TEST_SUITE_P(All, KernelOps, testing::ValuesIn(cases([](const Op& op) {
                             return !std::holds_alternative<Conv>(op) && !std::holds_alternative<Linear>(op);
                         })),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(All, KernelOpsOfNorms,
                         testing::ValuesIn(cases([](const Op& op) { return std::holds_alternative<BatchNorm>(op); })),
                         name_of_case);

}  // namespace
}  // namespace convoy::test
