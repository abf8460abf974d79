// Moments in backward at which gradients are complete: by hand for small models, and compared with
// torchvision's counts.
#include "plan/ready_gradients.h"

#include <gtest/gtest.h>

#include "model/models.h"

namespace convoy::test {
namespace {

size_t count_of(const std::vector<ReadyGradient>& gradients) {
    size_t count = 0;
    for (const ReadyGradient& g : gradients) count += g.count;
    return count;
}

Graph resnet(const std::string& name) {
    return build_model({.name = name, .h = 224, .w = 224, .c = 3, .classes = 1000});
}

TEST(ReadyGradients, OfResnetsAreAsManyAsTorchvisionCounts) {
    // sum(p.numel() for p in torchvision.models.resnet50().parameters())
    EXPECT_EQ(count_of(ready_gradients(resnet("resnet50"))), 25557032u);
    EXPECT_EQ(count_of(ready_gradients(resnet("resnet18"))), 11689512u);
    EXPECT_EQ(resnet("resnet50").parameter_count(), 25557032u);
}

TEST(ReadyGradients, MomentsRiseTo1) {
    for (const std::string& name : model_names()) {
        ModelOptions o = usual_images(name);
        const std::vector<ReadyGradient> gradients = ready_gradients(build_model(o));
        ASSERT_FALSE(gradients.empty()) << name;
        double before = 0;
        for (const ReadyGradient& g : gradients) {
            EXPECT_GT(g.moment, 0) << name;
            EXPECT_GE(g.moment, before) << name;
            EXPECT_LE(g.moment, 1) << name;
            before = g.moment;
        }
        EXPECT_NEAR(before, 1, 1e-9) << name << ": the first layer's gradient ends backward";
    }
}

// ResNet-50's classifier has 1000 x 2048 of 4.09e9 multiply-adds, so its gradient is early. The
// last stage has 58 % of the elements and a fifth of the work. So half of all gradients are
// complete before a quarter of backward is over.
TEST(ReadyGradients, LargeOnesOfAResnetComeEarly) {
    const std::vector<ReadyGradient> gradients = ready_gradients(resnet("resnet50"));
    EXPECT_LT(gradients.front().moment, 0.002);
    size_t count = 0;
    double half = 0;
    for (const ReadyGradient& g : gradients) {
        count += g.count;
        if (half == 0 && count > 25557032u / 2) half = g.moment;
    }
    EXPECT_LT(half, 0.25);
}

/// A 4x4x2 image; a 3x3 convolution to 4x4x5 with a bias, a batch norm, and a linear layer to 3.
Graph two_layers() {
    GraphBuilder g("two", 4, 4, 2, 3);
    const ValueId conv = g.conv("conv", g.input(), 5, 3, 1, 1, kaiming_fan_out(3, 5), true);
    return g.finish(g.linear("fc", g.batch_norm("bn", conv), 3), 0);
}

TEST(ReadyGradients, OfTwoLayersByHand) {
    const std::vector<ReadyGradient> gradients = ready_gradients(two_layers());
    ASSERT_EQ(gradients.size(), 6u);
    // Backward of the linear layer: 80 x 3 products for the weight, and as many for its input. The
    // convolution: 4x4 pixels x 5 x 3x3x2, for the weight only, because images need no gradient.
    const double linear = 2 * 80 * 3, conv = 4 * 4 * 5 * 3 * 3 * 2, all = linear + conv;
    const size_t counts[] = {240, 3, 5, 5, 90, 5};
    const double moments[] = {linear / all, linear / all, linear / all, linear / all, 1, 1};
    for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_EQ(gradients[i].count, counts[i]) << i;
        EXPECT_NEAR(gradients[i].moment, moments[i], 1e-12) << i;
    }
}

TEST(ReadyGradients, FrozenParametersHaveNone) {
    Graph graph = two_layers();
    size_t frozen = 0;
    for (Param& p : graph.params)
        if (p.trained && p.shape.count() == 90) {
            p.frozen = true;
            ++frozen;
        }
    ASSERT_EQ(frozen, 1u);
    const std::vector<ReadyGradient> gradients = ready_gradients(graph);
    EXPECT_EQ(gradients.size(), 5u);
    EXPECT_EQ(count_of(gradients), 240u + 3 + 5 + 5 + 5);
}

TEST(ReadyGradients, WithoutLayersOfWorkOpsCountAlike) {
    GraphBuilder g("norms", 1, 1, 2, 2);
    const ValueId first = g.batch_norm("first", g.input());
    const std::vector<ReadyGradient> gradients = ready_gradients(g.finish(g.batch_norm("second", first), 0));
    ASSERT_EQ(gradients.size(), 4u);
    EXPECT_DOUBLE_EQ(gradients[0].moment, 2.0 / 3);  // after the loss and this norm, of three ops
    EXPECT_DOUBLE_EQ(gradients[2].moment, 1);
}

}  // namespace
}  // namespace convoy::test
