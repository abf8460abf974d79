// Batch norms in inference as factors by channel, and as a part of the convolution before them.
#include "model/fold.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy::test {
namespace {

constexpr Init zero = {Init::constant, 0};

/// Folds a graph of a convolution with two filters and what `more` adds after it. Each element has
/// another value.
template <class More> FoldedModel folded(bool bias, const More& more) {
    GraphBuilder b("test", 8, 8, 3, 10);
    const ValueId x = more(b, b.conv("conv", b.input(), 2, 3, 1, 1, zero, bias));
    const Graph graph = b.finish(b.linear("fc", x, 10), 0);
    std::vector<std::vector<float>> values;
    float next = 1;
    for (const Param& p : graph.params)
        for (float& v : values.emplace_back(p.shape.count())) v = next += 0.25f;
    return fold_batch_norms(graph, values);
}

int norms(const FoldedModel& model) {
    int n = 0;
    for (const Op& op : model.graph.ops) n += std::holds_alternative<BatchNorm>(op);
    return n;
}

ValueId norm(GraphBuilder& b, ValueId x) { return b.batch_norm("bn", x); }

TEST(Fold, FactorsAreThoseOfTheFormula) {
    const BatchNorm op{0, 1, 0, 1, 2, 3, 1e-5f, 0.1f};
    const ChannelFactors f = factors_of(op, {{2, 3}, {0.5f, -1}, {4, -8}, {0.25f, 0}});
    const double first = 2 / std::sqrt(0.25 + double(1e-5f)), second = 3 / std::sqrt(double(1e-5f));
    EXPECT_EQ(f.factor, (std::vector<float>{float(first), float(second)})) << "a variance of zero leaves epsilon";
    EXPECT_EQ(f.shift, (std::vector<float>{float(0.5 - 4 * first), float(-1 + 8 * second)}));
}

TEST(Fold, ABatchNormThatAloneReadsAConvolutionBecomesAPartOfIt) {
    for (const bool bias : {false, true}) {
        const FoldedModel before = folded(bias, [](GraphBuilder& b, ValueId x) { return b.relu(norm(b, b.relu(x))); }),
                          after = folded(bias, [](GraphBuilder& b, ValueId x) { return b.relu(b.relu(norm(b, x))); });
        EXPECT_EQ(norms(before), 1) << "a ReLU is between";
        EXPECT_EQ(norms(after), 0);
        const Conv& conv = std::get<Conv>(after.graph.ops[0]);
        EXPECT_EQ(conv.y, inputs_of(after.graph.ops[1])[0]);
        EXPECT_EQ(after.graph.params[conv.bias].name, "conv.bias");
        const size_t first = bias ? 2 : 1;  // parameter of the norm
        const ChannelFactors f =
            factors_of({0, 1, int(first), int(first) + 1, int(first) + 2, int(first) + 3, 1e-5f, 0.1f}, before.values);
        for (size_t c = 0; c < 2; ++c) {
            EXPECT_EQ(after.values[0][c * 27 + 5], before.values[0][c * 27 + 5] * f.factor[c]);
            EXPECT_FLOAT_EQ(after.values[conv.bias][c], (bias ? before.values[1][c] * f.factor[c] : 0) + f.shift[c]);
        }
    }
}

TEST(Fold, OtherBatchNormsStay) {
    EXPECT_EQ(norms(folded(false, [](GraphBuilder& b, ValueId x) { return b.add(norm(b, x), x); })), 1)
        << "two readers";
    EXPECT_EQ(norms(folded(false, [](GraphBuilder& b, ValueId x) { return norm(b, b.max_pool(x, 2, 2)); })), 1);
    EXPECT_EQ(norms(folded(false, [](GraphBuilder& b, ValueId x) { return norm(b, b.add(x, x)); })), 1);
    EXPECT_EQ(norms(folded(false, [](GraphBuilder& b, ValueId x) { return b.batch_norm("second", norm(b, x)); })), 1)
        << "one of two";
    EXPECT_EQ(norms(folded(false, [](GraphBuilder& b, ValueId) { return norm(b, b.input()); })), 1) << "of the images";
}

}  // namespace
}  // namespace convoy::test
