// Gradients that run at the same time on a GPU: counts of blocks by hand, and both outcomes of the
// selection.
#include <gtest/gtest.h>

#include "backend/gpu/algorithms.h"
#include "backend/gpu/plan_list.h"
#include "tests/cuda/graphs.h"

namespace convoy::test {
namespace {

using namespace cuda;

PlanSpec spec_of(PlanSpec::Kind kind, const Shape& x, const Shape& y, int kernel, int stride) {
    PlanSpec s{kind, x, y, kernel, stride, kernel / 2};
    return s;
}

// Tiles of 128 x 128 outputs, each cut where it adds up more than 512 products.
TEST(Branches, BlocksAreTilesTimesTheirDepth) {
    const Shape x{16, 8, 8, 64}, y{16, 8, 8, 128}, half{16, 4, 4, 128};
    EXPECT_EQ(spec_of(PlanSpec::conv, x, y, 3, 1).blocks(), 8 * 1 * 2) << "1024 x 128, depth 9 * 64 = 576";
    EXPECT_EQ(spec_of(PlanSpec::conv_data_gradient, x, y, 3, 1).blocks(), 8 * 1 * 3) << "1024 x 64, depth 1152";
    EXPECT_EQ(spec_of(PlanSpec::conv_weight_gradient, x, y, 3, 1).blocks(), 1 * 5 * 2) << "128 x 576, depth 1024";
    EXPECT_EQ(spec_of(PlanSpec::conv_data_gradient, x, half, 3, 2).blocks(), 8 * 1 * 1) << "depth 1152 / 4 = 288";
    EXPECT_EQ(spec_of(PlanSpec::conv_weight_gradient, x, half, 3, 2).blocks(), 1 * 5 * 1) << "depth 256";
    EXPECT_EQ(spec_of(PlanSpec::conv_weight_gradient, {1, 1, 1, 129}, {1, 1, 1, 8}, 1, 1).blocks(), 2);
}

/// Two convolutions of 64 channels, the first frozen or not, and a linear layer.
Graph three_layers(bool frozen) {
    GraphBuilder builder("three", 8, 8, 8, 10);
    const ValueId a = builder.conv("first", builder.input(), 64, 3, 1, 1, kaiming_fan_out(3, 64)),
                  b = builder.conv("second", a, 64, 3, 1, 1, kaiming_fan_out(3, 64)),
                  c = builder.conv("third", b, 128, 3, 1, 1, kaiming_fan_out(3, 128));
    Graph g = builder.finish(builder.linear("fc", c, 10), 0);
    for (Param& p : g.params)
        if (p.name.rfind("second", 0) == 0) p.frozen = frozen;
    return g;
}

std::vector<std::string> side_by_side(const Graph& g, int batch, int multiprocessors) {
    return gradient_pairs(g, batch, {.precision = Precision::f32, .multiprocessors = multiprocessors}).side_by_side;
}

// Blocks at batch 16, data + weight gradient. second: 1024 x 64, depth 576: 8 * 2; 64 x 576, depth
// 1024: 5 * 2. third: 24 + 10, as above. fc reads 8192 numbers of 16 samples: 64 + 64.
TEST(Branches, GradientsThatFitTogetherRunSideBySide) {
    const Graph g = three_layers(false);
    using Names = std::vector<std::string>;
    EXPECT_EQ(side_by_side(g, 16, 25), Names{});
    EXPECT_EQ(side_by_side(g, 16, 26), Names{"second"});
    EXPECT_EQ(side_by_side(g, 16, 33), Names{"second"});
    EXPECT_EQ(side_by_side(g, 16, 34), (Names{"second", "third"}));
    EXPECT_EQ(side_by_side(g, 16, 127), (Names{"second", "third"}));
    EXPECT_EQ(side_by_side(g, 16, 128), (Names{"second", "third", "fc"}));
    EXPECT_EQ(side_by_side(g, 64, 128), (Names{"second", "fc"})) << "64 + 40, 96 + 40, and 64 + 64 as before";
    EXPECT_EQ(side_by_side(g, 16, 0), Names{}) << "one stream";
    EXPECT_EQ(gradient_pairs(g, 16, {}).all, 3) << "the first has no data gradient";
}

TEST(Branches, WhatHasOneGradientHasNoBranch) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(side_by_side(three_layers(true), 16, 10000), (Names{"third", "fc"}));
    EXPECT_EQ(side_by_side(three_layers(false), 0, 10000), Names{}) << "a rank without samples";
}

// An H100's 132 multiprocessors: full with 256 photographs, far from it with one.
TEST(Branches, ALargeBatchLeavesNothingToShare) {
    const Graph g = cuda_graph("resnet50", 224, 3, 1000, Precision::f16);
    EXPECT_EQ(side_by_side(g, 256, 132), std::vector<std::string>{});
    EXPECT_GT(side_by_side(g, 1, 132).size(), 10u);
}

}  // namespace
}  // namespace convoy::test
