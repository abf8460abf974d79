// The bytes that batch norm's kernels move, counted on the host access by access. They are compared
// with the passes that each implementation promises, and with the least work that a benchmark
// assumes.
#include "tests/kernels/norm_case.h"  // must come first: it changes CUDA's headers

#include "plan/work.h"

namespace convoy::test {
namespace {

using kernels::Act;

/// A gradient, and how many times it reads or writes tensors of x's size.
struct NormCase {
    const char* name;
    Act act;
    int residual_channels;  ///< 0: no residual; x has 24
    bool adds_dx, adds_dresidual;
    int read, written;
};

// Without a residual: reads dy and x twice, writes dx. With one: also reads y for ReLU's mask, and
// writes dresidual. If dresidual is the masked dy, the first pass writes it, and the second reads
// it instead of dy and y. GELU's first pass overwrites dy with dy times the derivative.
const NormCase norm_cases[] = {
    {"relu", Act::relu, 0, false, false, 4, 1},
    {"relu, dx added", Act::relu, 0, true, false, 5, 1},
    {"gelu", Act::gelu, 0, false, false, 4, 2},
    {"identity, residual", Act::identity, 24, false, false, 4, 2},
    {"relu, residual", Act::relu, 24, false, false, 5, 2},
    {"relu, residual, dx added", Act::relu, 24, true, false, 6, 2},
    {"relu, residual, dresidual added", Act::relu, 24, false, true, 7, 2},
};

struct Operands {
    Rank rank;
    KernelTensor residual, dresidual;
    kernels::BatchNormArgs n;
    kernels::BatchNormGradients g;

    Operands(const NormCase& norm_case, Layout layout, Shape shape)
        : rank(Norm(shape, norm_case.act, layout.type), layout),
          residual(narrowed(shape, norm_case.residual_channels), layout),
          dresidual(narrowed(shape, norm_case.residual_channels), layout) {
        n = rank.args();
        g = rank.gradients();
        g.accumulate_dx = norm_case.adds_dx;
        g.accumulate_dresidual = norm_case.adds_dresidual;
        rank.dx.put(rank.norm.dy);
        if (norm_case.residual_channels == 0) return;
        residual.put(normals(shape.pixels() * size_t(norm_case.residual_channels), 5));
        dresidual.put(residual.get());
        n.residual = residual.tensor();
        n.residual_channels = norm_case.residual_channels;
        g.dresidual = dresidual.tensor();
    }
    static Shape narrowed(Shape s, int channels) {
        s.c = std::max(channels, 1);
        return s;
    }
    Floats result() const {
        Floats all;
        for (const Floats& part : {rank.dx.get(), dresidual.get(), rank.dscale, rank.dbias})
            all.insert(all.end(), part.begin(), part.end());
        return all;
    }
};

/// Returns bytes that `work` reads and writes, in tensors of x's size.
template <class F> std::pair<double, double> moved(const Tensor& x, F work) {
    const Traffic before = traffic();
    work();
    return {double(traffic().read - before.read) / double(x.bytes()),
            double(traffic().written - before.written) / double(x.bytes())};
}

TEST(KernelNormBytes, AGradientMovesTheBytesOfItsCase) {
    const Shape shape{3, 9, 7, 24};
    for (const Layout& layout : {Layout{DType::f16, 8, 0}, {DType::f32, 8, 0}, {DType::bf16, 8, 1}})
        for (const NormCase& norm_case : norm_cases) {
            SCOPED_TRACE(name_of(layout) + " " + norm_case.name);
            Operands o(norm_case, layout, shape);
            kernels::batch_norm_forward(o.n, o.rank.workspace.data(), nullptr);
            const auto [read, written] =
                moved(o.n.x, [&] { kernels::batch_norm_backward(o.n, o.g, o.rank.workspace.data(), nullptr); });
            EXPECT_EQ(read, norm_case.read);
            EXPECT_EQ(written, norm_case.written);
        }
}

// Each summing thread also reads its channels of row 0, the pivot. With 24 channels in vectors of
// 8, that is 85 threads per vector, in each of the 189 / 64 = 3 chunks.
TEST(KernelNormBytes, AForwardMovesTheBytesOfItsCase) {
    const Layout layout{DType::f16, 8, 0};
    for (const bool residual : {false, true}) {
        Operands o({"", Act::relu, residual ? 24 : 0, false, false, 0, 0}, layout, {3, 9, 7, 24});
        const double pivots = 3 * 85 / 189.0;
        const auto [read, written] =
            moved(o.n.x, [&] { kernels::batch_norm_forward(o.n, o.rank.workspace.data(), nullptr); });
        EXPECT_DOUBLE_EQ(read, 2 + residual + pivots);
        EXPECT_EQ(written, 1);
        const auto inference = moved(o.n.x, [&] { kernels::batch_norm_inference(o.n, nullptr); });
        EXPECT_EQ(inference, std::pair(1.0 + residual, 1.0));
    }
}

// The least work is what the kernels move if no gradient is added. GELU's kernels write a value
// that they could recompute.
TEST(KernelNormBytes, TheLeastWorkIsWhatTheKernelsMove) {
    for (const NormCase& norm_case : norm_cases) {
        if (norm_case.adds_dx || norm_case.adds_dresidual) continue;
        Graph graph;
        const auto value = [&](int c) {
            graph.values.push_back(Value{.name = "v", .h = 9, .w = 7, .c = c, .dtype = DType::f32});
            return ValueId(graph.values.size() - 1);
        };
        BatchNorm op{};
        graph.input = op.x = value(24);
        op.y = value(24);
        op.act = norm_case.act == Act::relu   ? Activation::relu
                 : norm_case.act == Act::gelu ? Activation::gelu
                                              : Activation::identity;
        if (norm_case.residual_channels) op.residual = value(norm_case.residual_channels);
        graph.ops.push_back(op);
        graph.params.push_back(
            {.name = "all four", .shape = {1, 1, 1, 24}, .init = {}, .trained = true, .is_weight = false});
        const double tensor = 4.0 * 3 * 9 * 7 * 24;
        EXPECT_EQ(work_of_step(graph, 3, 1, {}).at("batch norm gradient").bytes,
                  tensor * (norm_case.read + norm_case.written - (norm_case.act == Act::gelu)))
            << norm_case.name;
    }
}

// The results stay the same if dy and y are gone once the residual's gradient is written.
TEST(KernelNormBytes, TheMaskedGradientIsReadBackNotWorkedOutAgain) {
    for (const Layout& layout : layouts()) {
        SCOPED_TRACE(name_of(layout));
        const auto run = [&](bool forget) {
            Operands o({"", Act::relu, 24, false, false, 0, 0}, layout, {3, 9, 7, 24});
            kernels::batch_norm_forward(o.n, o.rank.workspace.data(), nullptr);
            const Floats y = o.rank.y.get();
            Doubles sums(2 * 24 + 1, NAN);
            kernels::batch_norm_gradient_sums(o.n, o.g, sums.data(), o.rank.workspace.data(), nullptr);
            Floats masked = o.rank.norm.dy;
            for (size_t i = 0; i < masked.size(); ++i) masked[i] = y[i] > 0 ? masked[i] : 0;
            EXPECT_EQ(o.dresidual.get(), masked);
            const Floats gone(masked.size(), NAN);
            if (forget) {
                o.rank.dy.put(gone);
                o.rank.y.put(gone);
            }
            kernels::batch_norm_gradient_apply(o.n, o.g, sums.data(), nullptr);
            EXPECT_TRUE(o.rank.dx.padding_is_zero() && o.dresidual.padding_is_zero());
            return o.result();
        };
        EXPECT_EQ(run(true), run(false));
    }
}

// After the summing pass dy has been multiplied by the derivative in double precision, and the
// applying pass does not read the activation.
TEST(KernelNormBytes, GelusDerivativeIsWorkedOutOnce) {
    for (const Layout& layout : layouts()) {
        SCOPED_TRACE(name_of(layout));
        Operands o({"", Act::gelu, 0, false, false, 0, 0}, layout, {3, 9, 7, 24});
        kernels::batch_norm_forward(o.n, o.rank.workspace.data(), nullptr);
        Doubles sums(2 * 24 + 1, NAN);
        const Floats dy = o.rank.dy.get(), x = o.rank.x.get();
        kernels::batch_norm_gradient_sums(o.n, o.g, sums.data(), o.rank.workspace.data(), nullptr);
        const Floats g = o.rank.dy.get();
        const double step = layout.type == DType::f32 ? 1e-6 : layout.type == DType::f16 ? 0x1p-10 : 0x1p-7;
        for (size_t i = 0; i < g.size(); ++i) {
            const size_t c = i % 24;
            const double z = (double(x[i]) - double(o.n.mean[c])) * double(o.n.invstd[c]) *
                                 (o.n.scale ? double(o.n.scale[c]) : 1) +
                             double(o.n.bias[c]),
                         slope = 0.5 * std::erfc(-z / std::sqrt(2.0)) +
                                 z * std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
            ASSERT_NEAR(g[i], double(dy[i]) * slope, step * (std::abs(double(dy[i])) + 1e-2)) << i;
        }
        kernels::BatchNormArgs linear = o.n;
        linear.act = Act::identity;
        kernels::batch_norm_gradient_apply(o.n, o.g, sums.data(), nullptr);
        const Floats dx = o.rank.dx.get();
        kernels::batch_norm_gradient_apply(linear, o.g, sums.data(), nullptr);
        EXPECT_EQ(o.rank.dx.get(), dx);
        EXPECT_TRUE(o.rank.dx.padding_is_zero() && o.rank.dy.padding_is_zero());
    }
}

}  // namespace
}  // namespace convoy::test
