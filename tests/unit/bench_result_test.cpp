// Results that convoy bench computes: quantiles, tables, work counted from shapes compared with
// sums by hand, and the classes of a tape's launches.
#include <gtest/gtest.h>
#include <cmath>

#include <map>
#include <set>

#include "base/quantile.h"
#include "base/table.h"
#include "bench/result.h"
#include "comm/replicated.h"
#include "model/models.h"
#include "model/precision.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

TEST(BenchResult, QuantilesAreThoseOfNumpy) {
    EXPECT_DOUBLE_EQ(quantile({3, 1, 2, 4}, 0.1), 1.3);  // numpy.quantile([3, 1, 2, 4], 0.1)
    EXPECT_DOUBLE_EQ(median({3, 1, 2, 4}), 2.5);
    EXPECT_DOUBLE_EQ(quantile({5, 7}, 0.9), 6.8);
    EXPECT_DOUBLE_EQ(quantile({5}, 0.9), 5);
    EXPECT_TRUE(std::isnan(median({})));
}

TEST(BenchResult, TablesAreAligned) {
    const TextTable table{{"who", "n"}, {{"ä, b", "1"}, {"c \"d\"", "23"}}};
    EXPECT_EQ(as_text(table), "who     n\nä, b    1\nc \"d\"  23\n");
    EXPECT_EQ(as_markdown(table), "| who   |  n |\n|---|---:|\n| ä, b  |  1 |\n| c \"d\" | 23 |\n");
    EXPECT_EQ(as_markdown({{"a"}, {{"x|y"}}}), "| a    |\n|---|\n| x\\|y |\n");
    EXPECT_EQ(as_markdown({{"<b>"}, {{"![x](http://y)"}}}), "| &lt;b>          |\n|---|\n| !\\[x](http://y) |\n");
    EXPECT_EQ(as_markdown_text(R"(a &lt; \[b] \\<c)"), R"(a &amp;lt; \\\[b] \\&lt;c)") << "shown as it is";
    EXPECT_EQ(as_markdown({{"a"}, {{R"(x\|y)"}}}),
              "| a      |\n|---|\n"
              R"(| x\\\|y |)"
              "\n")
        << "an escaped backslash, then an escaped bar";
    EXPECT_EQ(as_csv(table), "who,n\n\"ä, b\",1\n\"c \"\"d\"\"\",23\n");
    EXPECT_EQ(as_csv({{"a"}, {{"two\nlines"}, {"plain"}}}), "a\n\"two\nlines\"\nplain\n");
}

TEST(BenchResult, OnlyNumbersOfCsvBeginAsFormulasDo) {
    for (const std::string same : {"-1.5", "+2e-3", "-.5", "-1e400", "+7", "-", "=", "@", "a=1", " =", "1-2", ""})
        EXPECT_EQ(as_csv({{same}, {}}), same + "\n");
    for (const std::string formula : {"=1", "=cmd|' /C calc'!A0", "+A1", "-1+1", "@A1", "-nan", "-inf", "--1", "+-1",
                                      "-0x1", "-1 ", "-1e", " =1", "\n  +A1"})
        EXPECT_EQ(as_csv({{formula}, {}}), formula[0] == '\n' ? "\"'" + formula + "\"\n" : "'" + formula + "\n");
    EXPECT_EQ(as_csv({{"\t=1\r\x1b[2J\xff"}, {}}), "\\x09=1\\x0d\\x1b[2J\\xff\n") << "no control character is left";
    EXPECT_EQ(as_csv({{"=A1,\"x\""}, {}}), "\"'=A1,\"\"x\"\"\"\n") << "the quotes are not part of the cell";
}

// One 3x3 convolution of 2 to 4 channels on 6x6, a ReLU, and a linear layer of 144 to 3, on 5
// samples.
TEST(BenchResult, WorkIsCountedFromShapes) {
    GraphBuilder b("tiny", 6, 6, 2, 3);
    const ValueId c = b.conv("c", b.input(), 4, 3, 1, 1, {Init::constant, 0});
    const Graph graph = b.finish(b.linear("l", b.relu(c), 3), 0);
    const OptimizerSpec sgd;
    const WorkByClass one = work_of_step(graph, 5, 1, sgd);
    EXPECT_DOUBLE_EQ(one.at("conv forward").flops, 2.0 * 5 * 36 * 4 * 9 * 2);
    EXPECT_DOUBLE_EQ(one.at("conv weight gradient").flops, one.at("conv forward").flops);
    EXPECT_EQ(one.count("conv data gradient"), 0u) << "the images have no gradient";
    EXPECT_DOUBLE_EQ(one.at("linear data gradient").flops, 2.0 * 5 * 144 * 3);
    EXPECT_DOUBLE_EQ(one.at("conv forward").bytes, 4.0 * (5 * 72 + 72 + 5 * 144));
    EXPECT_DOUBLE_EQ(one.at("relu forward").bytes, 4.0 * 2 * 5 * 144);
    EXPECT_DOUBLE_EQ(one.at("gather").bytes, 5.0 * 72 * (1 + 4));
    const double floats = double(graph.parameter_count());
    EXPECT_DOUBLE_EQ(one.at("optimizer").bytes, 4 * floats * (1 + 2 + 2));
    EXPECT_EQ(one.count("all-reduce"), 0u);
    EXPECT_DOUBLE_EQ(work_of_step(graph, 5, 4, sgd).at("all-reduce").bytes, 4 * floats * 2 * 3 / 4);
    EXPECT_DOUBLE_EQ(work_of_step(with_precision(graph, Precision::bf16), 5, 1, sgd).at("gather").bytes,
                     5.0 * (72 + 36 * 8 * 2))
        << "padded to 8";
}

/// Algorithms of the first op: forward takes a quarter of the multiplications, in f32; its weight
/// gradient is in f32.
struct SomeAlgorithms final : Algorithms {
    Multiplications multiplications(int op, LaunchPhase direction) const override {
        if (op != 0 || direction == LaunchPhase::data_gradient) return {};
        return {.of_direct = direction == LaunchPhase::forward ? 0.25 : 1, .in_f32 = true};
    }
};

// Two 3x3 convolutions of 8 channels on 6x6, on 5 samples.
TEST(BenchResult, WhatIsMultipliedIsCountedByAlgorithm) {
    GraphBuilder b("tiny", 6, 6, 8, 3);
    const ValueId first = b.conv("a", b.input(), 8, 3, 1, 1, {Init::constant, 0});
    const Graph f32 = b.finish(b.linear("l", b.conv("b", first, 8, 3, 1, 1, {Init::constant, 0}), 3), 0),
                graph = with_precision(f32, Precision::bf16);
    const double conv = 2.0 * 5 * 36 * 8 * 9 * 8;
    const WorkByClass work = work_of_step(graph, 5, 1, {}, SomeAlgorithms());
    EXPECT_DOUBLE_EQ(work.at("conv forward").flops, 2 * conv);
    EXPECT_DOUBLE_EQ(work.at("conv forward").f32, conv / 4);
    EXPECT_DOUBLE_EQ(work.at("conv forward").typed, conv) << "of the second convolution";
    EXPECT_DOUBLE_EQ(work.at("conv weight gradient").f32, conv);
    EXPECT_DOUBLE_EQ(work.at("conv weight gradient").typed, conv);
    EXPECT_DOUBLE_EQ(work.at("conv data gradient").f32, 0);
    EXPECT_DOUBLE_EQ(work.at("conv data gradient").typed, conv);
    EXPECT_DOUBLE_EQ(work_of_step(f32, 5, 1, {}, SomeAlgorithms()).at("conv forward").f32, 0) << "f32 is its own type";
    EXPECT_DOUBLE_EQ(work_of_step(f32, 5, 1, {}, SomeAlgorithms()).at("conv forward").typed, 1.25 * conv);

    BenchResult result;
    result.ceilings = {.flops = 100, .f32_flops = 50, .bytes = 10};
    result.classes_of_operations = {{"a", 9, {.flops = 900, .bytes = 1, .typed = 300, .f32 = 100}},
                                    {"b", 9, {.flops = 0, .bytes = 70}},
                                    {"all-reduce", 9, {.flops = 0, .bytes = 1000}}};
    EXPECT_DOUBLE_EQ(roofline_seconds(result), 3 + 2 + 7);
}

// The FLOPs that --dry-run counts for one image forward equal the sum over the classes, for every
// model.
TEST(BenchResult, WorkAgreesWithTheGraphsOwnCount) {
    for (const std::string& name : model_names()) {
        const Graph graph = fuse(build_model(usual_images(name)));
        double forward = 0, all = 0;
        for (const auto& [c, w] : work_of_step(graph, 7, 2, {})) {
            if (c.ends_with("forward")) forward += w.flops;
            all += w.flops;
        }
        EXPECT_NEAR(forward, 7 * graph.flops_per_image(), 1e-9 * forward) << name;
        EXPECT_GE(all, 2 * forward) << name;
        EXPECT_LE(all, 3 * forward) << name;
    }
}

TEST(BenchResult, LaunchesOfATapeHaveClasses) {
    const Graph graph = fuse(build_model(usual_images("resnet18")));
    const auto launch_in = [](const Graph& g, const std::string& op, LaunchPhase phase, const std::string& fused = "") {
        LaunchId id{.phase = phase};
        for (size_t i = 0; i < g.ops.size(); ++i) {
            if (op == name_of(g.ops[i])) id.op = int(i);
            if (fused == name_of(g.ops[i]) && id.fused_op < 0) id.fused_op = int(i);
        }
        EXPECT_GE(id.op, 0) << op;
        return id;
    };
    const auto launch = [&](const char* op, LaunchPhase phase) { return launch_in(graph, op, phase); };
    const LaunchId gather{.phase = LaunchPhase::gather, .name = "of any name"}, sum{.phase = LaunchPhase::all_reduce};
    EXPECT_EQ(class_of_launch(launch("conv", LaunchPhase::forward), graph), "conv forward");
    EXPECT_EQ(class_of_launch(launch("conv", LaunchPhase::weight_gradient), graph), "conv weight gradient");
    EXPECT_EQ(class_of_launch(launch("linear", LaunchPhase::gradient), graph), "linear gradient");
    EXPECT_EQ(class_of_launch(launch("linear", LaunchPhase::bias), graph), "linear bias forward");
    EXPECT_EQ(class_of_launch(launch("batch_norm", LaunchPhase::forward), graph), "batch norm forward");
    EXPECT_EQ(class_of_launch(launch("batch_norm", LaunchPhase::gradient), graph), "batch norm gradient");
    const Graph plain = build_model(usual_images("resnet18"));
    EXPECT_EQ(class_of_launch(launch_in(plain, "relu", LaunchPhase::forward), plain), "relu forward");
    EXPECT_EQ(class_of_launch(launch_in(plain, "relu", LaunchPhase::gradient), plain), "relu gradient");
    EXPECT_EQ(class_of_launch(launch("softmax_xent", LaunchPhase::forward), graph), "loss forward");
    EXPECT_EQ(class_of_launch(launch("softmax_xent", LaunchPhase::gradient), graph), "loss gradient");
    EXPECT_EQ(class_of_launch(sum, graph), "all-reduce");
    EXPECT_EQ(class_of_launch(gather, graph), "gather");
    const auto classes = by_class({{gather, 1}, {sum, 2}, {sum, 3}}, graph, {{"gather", {0, 9}}});
    ASSERT_EQ(classes.size(), 2u);
    EXPECT_EQ(classes[0].name, "all-reduce");
    EXPECT_DOUBLE_EQ(classes[0].seconds, 5);
    EXPECT_DOUBLE_EQ(classes[1].work.bytes, 9);
    const Graph pooled = fuse(build_model(usual_images("airbench94")));
    const auto merged = by_class({{launch_in(pooled, "batch_norm", LaunchPhase::forward, "pool"), 1},
                                  {launch_in(pooled, "pool", LaunchPhase::forward), 2},
                                  {launch_in(pooled, "batch_norm", LaunchPhase::forward), 4}},
                                 pooled, {{"pool forward", {0, 5}}, {"batch norm forward", {0, 7}}});
    ASSERT_EQ(merged.size(), 1u);
    EXPECT_EQ(merged[0].name, "pool and batch norm forward");
    EXPECT_DOUBLE_EQ(merged[0].seconds, 7);
    EXPECT_DOUBLE_EQ(merged[0].work.bytes, 12);
}

}  // namespace
}  // namespace convoy::test
