// The algorithm of a convolution on a CPU, selected from times that the test makes up.
#include "backend/cpu/conv_algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/winograd.h"
#include "model/models.h"
#include "tests/support/test_comm.h"

namespace convoy::cpu {
namespace {

constexpr Capabilities avx2{}, avx512{.avx512 = true}, bf16{.avx512 = true, .bf16 = true},
    amx{.avx512 = true, .bf16 = true, .amx = true};

ConvSpec spec(LaunchPhase direction, int kernel, int stride, int side, int in, int out, DType dtype = DType::f32) {
    const int pad = kernel / 2, to = (side + 2 * pad - kernel) / stride + 1;
    return {.direction = direction,
            .op = {.x = 0, .y = 1, .weight = 0, .bias = none, .kernel = kernel, .stride = stride, .pad = pad},
            .x = {1, side, side, in},
            .y = {1, to, to, out},
            .dtype = dtype,
            .add = false,
            .threads = 2};
}

using Names = std::vector<std::string>;
Names names(const ConvSpec& s, const Capabilities& has) {
    Names names;
    for (const ConvBy by : candidates(s, has)) names.emplace_back(name_of(by));
    return names;
}

class ConvAlgorithms : public testing::Test {
protected:
    void SetUp() override {
        if (!capabilities().avx512) GTEST_SKIP() << "Winograd is compiled by GCC, for AVX-512";
    }
    ConvSpec conv3_ = spec(LaunchPhase::forward, 3, 1, 8, 64, 64);
    ConvSpec conv3_bf16_ = spec(LaunchPhase::forward, 3, 1, 8, 64, 64, DType::bf16);
};

TEST_F(ConvAlgorithms, CapabilitiesSayWhatCan) {
    EXPECT_EQ(names(conv3_, avx2), (Names{"direct", "product"}));
    EXPECT_EQ(names(conv3_, avx512), (Names{"winograd", "direct", "product"}));
    EXPECT_EQ(names(conv3_, amx), (Names{"winograd", "direct", "product"})) << "f32 is never multiplied in bf16";
    EXPECT_EQ(names(conv3_bf16_, avx512), (Names{"winograd-large", "winograd", "direct", "product"}));
    EXPECT_EQ(names(conv3_bf16_, bf16), (Names{"winograd-large", "winograd", "direct", "product", "direct-bf16"}));
    EXPECT_EQ(names(conv3_bf16_, amx), (Names{"direct-bf16", "winograd-large", "winograd", "direct", "product"}));
    EXPECT_EQ(names(spec(LaunchPhase::forward, 1, 1, 8, 64, 64, DType::bf16), amx),
              (Names{"direct-bf16", "product-bf16", "direct", "product"}));
    EXPECT_EQ(names(spec(LaunchPhase::forward, 1, 1, 8, 64, 64, DType::bf16), bf16),
              (Names{"direct", "product", "direct-bf16", "product-bf16"}));
}

TEST_F(ConvAlgorithms, ShapesSayWhatCan) {
    EXPECT_EQ(names(spec(LaunchPhase::forward, 3, 2, 8, 64, 64), avx512)[0], "direct") << "strided";
    EXPECT_EQ(names(spec(LaunchPhase::forward, 3, 1, 2, 64, 64), avx512)[0], "direct") << "of 2x2 images";
    EXPECT_EQ(names(spec(LaunchPhase::forward, 3, 1, 8, 64, 15), avx512)[0], "direct") << "less than a vector";
    // 32 x 32 pixels: their patches are 16 times as large as the weights
    EXPECT_EQ(names(spec(LaunchPhase::forward, 3, 1, 32, 64, 64), avx512), (Names{"winograd", "direct"}));
    EXPECT_EQ(names(spec(LaunchPhase::forward, 3, 1, 4, 64, 64, DType::bf16), avx512)[0], "winograd") << "one 4x4 tile";
    ConvSpec biased = conv3_;
    biased.op.bias = 1;
    EXPECT_EQ(names(biased, avx512), (Names{"direct"}));
    biased.direction = LaunchPhase::data_gradient;  // has no bias
    EXPECT_EQ(names(biased, avx512), (Names{"winograd", "direct", "product"}));
}

TEST_F(ConvAlgorithms, TheFastestIsChosen) {
    const std::vector<ConvBy> able = candidates(conv3_bf16_, bf16);
    EXPECT_EQ(choose(able, {}), ConvBy::winograd_large) << "nothing was measured";
    for (const ConvBy fast : able) {
        ConvTimes times;
        for (const ConvBy by : able) times[by] = by == fast ? 1e-3 : 2e-3;
        EXPECT_EQ(choose(able, times), fast);
    }
}

TEST_F(ConvAlgorithms, NoiseDoesNotDecide) {
    const std::vector<ConvBy> able = candidates(conv3_, avx512);
    EXPECT_EQ(choose(able, {{ConvBy::winograd, 1.00e-3}, {ConvBy::direct, 0.97e-3}}), ConvBy::winograd);
    EXPECT_EQ(choose(able, {{ConvBy::winograd, 1.00e-3}, {ConvBy::direct, 0.96e-3}}), ConvBy::direct);
}

TEST_F(ConvAlgorithms, AnAlgorithmDoesNotDependOnTheBatchButOnAllElse) {
    std::set<std::string> keys = {conv3_.key()};
    const auto differs = [&](const ConvSpec& s) { EXPECT_TRUE(keys.insert(s.key()).second) << s.key(); };
    differs(conv3_bf16_);
    differs(spec(LaunchPhase::data_gradient, 3, 1, 8, 64, 64));
    differs(spec(LaunchPhase::weight_gradient, 3, 1, 8, 64, 64));
    differs(spec(LaunchPhase::forward, 3, 2, 8, 64, 64));
    differs(spec(LaunchPhase::forward, 1, 1, 8, 64, 64));
    differs(spec(LaunchPhase::forward, 3, 1, 7, 64, 64));
    differs(spec(LaunchPhase::forward, 3, 1, 8, 80, 64));
    differs(spec(LaunchPhase::forward, 3, 1, 8, 64, 80));
    ConvSpec s = conv3_;
    s.threads = 1;
    differs(s);
    s = spec(LaunchPhase::data_gradient, 3, 1, 8, 64, 64);
    s.add = true;
    differs(s);
    s = conv3_;
    s.op.bias = 3;
    differs(s);
    s = conv3_;
    s.x.n = s.y.n = 100;
    EXPECT_EQ(s.key(), conv3_.key());
}

TEST_F(ConvAlgorithms, LikeSizesShareAMeasurement) {
    const auto key = [](int in, int out) { return spec(LaunchPhase::forward, 3, 1, 32, in, out).key(); };
    EXPECT_EQ(key(49, 54), key(63, 60));
    EXPECT_NE(key(49, 54), key(64, 54)) << "64 fills vectors";
    EXPECT_NE(key(49, 54), key(48, 54));
    EXPECT_NE(key(3, 16), key(4, 16)) << "less than a vector";
    EXPECT_EQ(spec(LaunchPhase::forward, 3, 1, 32, 49, 54).representative().x.c, 59);
    EXPECT_EQ(spec(LaunchPhase::forward, 3, 1, 32, 49, 64).representative().y.c, 64);
}

TEST_F(ConvAlgorithms, WhatIsMeasuredTakesMilliseconds) {
    // 2 * 64 pixels * 64 * 9 * 64 per image
    EXPECT_DOUBLE_EQ(conv3_.flops(), 4718592);
    EXPECT_EQ(conv3_.images(0.5e9), 105);
    EXPECT_EQ(conv3_.images(2e9), 423);
    EXPECT_EQ(spec(LaunchPhase::forward, 3, 1, 224, 512, 512).images(2e9), 1);  // one has 237 GFLOP
    EXPECT_EQ(spec(LaunchPhase::forward, 1, 1, 224, 3, 3).images(2e9), 55);     // 64 MiB
    EXPECT_EQ(spec(LaunchPhase::forward, 1, 1, 1, 16, 16).images(2e9), 1024);
}

// All together take 24 GFLOP per thread; each takes between half a GFLOP and 2 GFLOP.
TEST_F(ConvAlgorithms, ManyAreMeasuredWithLessWorkEach) {
    EXPECT_DOUBLE_EQ(trial_flops(1, 1), 2e9);
    EXPECT_DOUBLE_EQ(trial_flops(20, 1), 1.2e9);
    EXPECT_DOUBLE_EQ(trial_flops(40, 2), 1.2e9);
    EXPECT_DOUBLE_EQ(trial_flops(1000, 4), 0.5e9);
}

TEST_F(ConvAlgorithms, TheLastLineOfAKeyCounts) {
    const std::string key = conv3_.key() + " =";
    EXPECT_EQ(parse_tuned_convs(key + " direct 2 winograd 3\n" + key + "\n").at(conv3_.key()), ConvTimes());
    const ConvTimes times = parse_tuned_convs(key + " direct 2\n" + key + " winograd 3\n").at(conv3_.key());
    EXPECT_EQ(times.size(), 1u);
    EXPECT_DOUBLE_EQ(times.at(ConvBy::winograd), 3e-6);
}

TEST_F(ConvAlgorithms, TheirTextIsReadAsItWasWritten) {
    const TunedConvs tuned = {{conv3_.key(), {{ConvBy::winograd, 1.5e-3}, {ConvBy::direct, 0.25e-3}}},
                              {conv3_bf16_.key(), {}}};
    const std::string text = text_of(tuned);
    EXPECT_EQ(text,
              "bf16 3x3 stride1 pad1 8x8x64 to 64 forward threads2 =\n"
              "f32 3x3 stride1 pad1 8x8x64 to 64 forward threads2 = direct 250 winograd 1500\n");
    EXPECT_EQ(text_of(parse_tuned_convs("[a processor]\n\nz = very 3\n" + text)), text + "z =\n")
        << "a way that is unknown counts as not measured";
}

TEST_F(ConvAlgorithms, AProgramTakesWhatWasMeasured) {
    const Graph graph = fuse(build_model({.name = "resnet18", .h = 32, .w = 32, .c = 3, .classes = 10}));
    const GradientFlow gradients = gradient_flow(graph);
    const ProgramShape program{graph, 4, true, gradients};
    const std::vector<ConvUse> uses = uses_of(program, 2);
    TunedConvs tuned;  // only of the second convolution, with another winner than the untimed order's
    const int second = uses[3].op;
    for (const ConvUse& use : uses)
        if (use.op == second) tuned[use.spec.key()] = {{ConvBy::direct, 1e-3}, {ConvBy::winograd, 2e-3}};
    const auto algorithms = select_convs(program, 2, avx512, ConvBy::measured, tuned);
    for (const ConvUse& use : uses) {
        CpuAlgorithms::ConvAlgorithm algorithm = algorithms[use.op];
        const ConvBy expected = tuned.contains(use.spec.key()) ? ConvBy::direct : candidates(use.spec, avx512).front();
        EXPECT_EQ(algorithm.in(use.spec.direction), expected) << use.spec.key();
    }
    for (const ConvUse& use : uses) {
        CpuAlgorithms::ConvAlgorithm algorithm = select_convs(program, 2, avx512, ConvBy::gemm, tuned)[use.op];
        const Names able = names(use.spec, avx512);
        const bool can = std::find(able.begin(), able.end(), "product") != able.end();
        EXPECT_EQ(algorithm.in(use.spec.direction), can ? ConvBy::gemm : ConvBy::direct) << use.spec.key();
    }
}

TEST_F(ConvAlgorithms, WhatAnAlgorithmMultipliesIsKnown) {
    CpuAlgorithms algorithms;
    algorithms.convs.resize(2);
    algorithms.convs[1] = {.forward = ConvBy::winograd,
                           .data_gradient = ConvBy::direct_bf16,
                           .weight_gradient = ConvBy::gemm_bf16,
                           .h = 15,
                           .w = 7};
    // 4 x 2 tiles of 36 multiplications, where a direct sum takes 9 for each of 15 x 7 pixels
    EXPECT_DOUBLE_EQ(algorithms.multiplications(1, LaunchPhase::forward).of_direct, 4 * 2 * 36 / (9.0 * 15 * 7));
    EXPECT_TRUE(algorithms.multiplications(1, LaunchPhase::forward).in_f32);
    for (const LaunchPhase low : {LaunchPhase::data_gradient, LaunchPhase::weight_gradient}) {
        EXPECT_FALSE(algorithms.multiplications(1, low).in_f32);
        EXPECT_EQ(algorithms.multiplications(1, low).of_direct, 1);
    }
    EXPECT_TRUE(algorithms.multiplications(0, LaunchPhase::forward).in_f32);
    EXPECT_EQ(algorithms.multiplications(0, LaunchPhase::forward).of_direct, 1);
}

// Side lengths of images, the tile that needs fewer multiplications, and their number.
TEST_F(ConvAlgorithms, LargeTilesAreThoseThatFit) {
    const std::tuple<int, int, int, int> known[] = {{7, 7, 7, 81},        {14, 14, 7, 4 * 81}, {28, 28, 7, 16 * 81},
                                                    {8, 8, 8, 100},       {15, 7, 8, 2 * 100}, {15, 15, 8, 4 * 100},
                                                    {56, 56, 8, 49 * 100}};
    for (const auto& [h, w, tile, multiplications] : known) {
        EXPECT_EQ(Winograd::large_tile(h, w), tile) << h << "x" << w;
        EXPECT_DOUBLE_EQ(Winograd::multiplications(h, w, tile), multiplications / (9.0 * h * w)) << h << "x" << w;
    }
    CpuAlgorithms algorithms;
    algorithms.convs = {{.forward = ConvBy::winograd_large, .h = 15, .w = 7}};
    EXPECT_DOUBLE_EQ(algorithms.multiplications(0, LaunchPhase::forward).of_direct, 200 / (9.0 * 15 * 7));
    EXPECT_TRUE(algorithms.multiplications(0, LaunchPhase::forward).in_f32);
}

// A checkpoint has one section per kind of processor that the run used.
TEST(ConvAlgorithmsOfACheckpoint, AreThoseOfThisProcessor) {
    CpuBackend backend({1, false}, test_comm());
    const std::string mine = "[" + backend.facts().kind + "]\nours = direct 5\n",
                      other = "[Another processor]\ntheirs = direct 7\n";
    for (const std::string& text : {mine, mine + other, other + mine}) {
        backend.restore_tuning(text);
        EXPECT_EQ(backend.tuning(), mine) << text;
    }
    for (const std::string& text : {other, std::string("theirs = direct 7\n"), std::string()}) {
        backend.restore_tuning(text);
        EXPECT_EQ(backend.tuning(), "") << text << ": nothing is left of what was taken before";
    }
}

TEST_F(ConvAlgorithms, TheFirstConvolutionHasNoDataGradient) {
    const Graph graph = fuse(build_model({.name = "resnet18", .h = 32, .w = 32, .c = 3, .classes = 10}));
    const GradientFlow gradients = gradient_flow(graph);
    const auto in = [&](bool training, LaunchPhase direction) {
        const auto uses = uses_of({graph, 4, training, gradients}, 2);
        return std::count_if(uses.begin(), uses.end(), [&](const ConvUse& u) { return u.spec.direction == direction; });
    };
    EXPECT_EQ(in(true, LaunchPhase::forward), 20);
    EXPECT_EQ(in(true, LaunchPhase::weight_gradient), 20);
    EXPECT_EQ(in(true, LaunchPhase::data_gradient), 19);
    EXPECT_EQ(in(false, LaunchPhase::forward), 20);
    EXPECT_EQ(in(false, LaunchPhase::weight_gradient), 0);
}

}  // namespace
}  // namespace convoy::cpu
