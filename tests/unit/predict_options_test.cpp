// Numbers of ranks that `convoy predict` accepts.
#include "cli/predict_options.h"

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

using Ranks = std::vector<int>;

TEST(PredictOptions, RangesHaveTheirEnds) {
    EXPECT_EQ(ranks_to_predict("1..64", 8, 16), (Ranks{1, 2, 4, 8, 16, 32, 64}));
    EXPECT_EQ(ranks_to_predict("2..4", 8, 16), (Ranks{2, 4}));
    EXPECT_EQ(ranks_to_predict("8..8", 8, 16), (Ranks{8}));
    EXPECT_EQ(ranks_to_predict("3..31", 8, 16), (Ranks{4, 8, 16}));
    EXPECT_EQ(ranks_to_predict("1..24", 6, 16), (Ranks{1, 2, 4, 6, 12, 24})) << "whole nodes of six, doubled";
    EXPECT_EQ(ranks_to_predict("", 4, 3), (Ranks{1, 2, 4, 8, 12})) << "to all of the cluster";
    EXPECT_EQ(ranks_to_predict("16,1,8,8", 8, 16), (Ranks{1, 8, 16}));
}

TEST(PredictOptions, RanksThatFillNoNodesAreRefused) {
    const auto problem = [](const std::string& text, const std::vector<std::string>& words) {
        return problem_of_error(Exit::usage, words, [&] { ranks_to_predict(text, 8, 16); });
    };
    EXPECT_EQ("", problem("12", {"--ranks 12", "12 ranks do not fill nodes of 8; choose 8 or 16"}));
    EXPECT_EQ("", problem("9..15", {"no power of two and no whole node"}));
    for (const char* text : {"4..2", "0..4", "1..2000000", "..", "1.."})
        EXPECT_EQ("", problem(text, {"1..1024"})) << text;
    for (const char* text : {"0", "1,x", "1,,2", "1048577"}) EXPECT_EQ("", problem(text, {"is no number of ranks"}));
}

TEST(PredictOptions, BucketsHaveALeastSize) {
    const auto mib = [](const char* text) {
        return parse_predict({"--model", "resnet50", "--batch-per-rank", "8", "--cluster", "x", "--step", "31ms",
                              "--bucket-mib", text})
            .bucket_mib;
    };
    EXPECT_EQ(mib("0"), 0);
    EXPECT_EQ(mib("0.001"), 0.001);
    EXPECT_EQ(mib("4096"), 4096);
    for (const char* text : {"0.0009", "4097", "-1"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--bucket-mib"}, [&] { mib(text); })) << text;
}

TEST(PredictOptions, StepsHaveTheirUnits) {
    const auto seconds = [](const std::string& text) { return parse_steps(text, 32).at(0).seconds; };
    EXPECT_DOUBLE_EQ(seconds("31ms"), 0.031);
    EXPECT_DOUBLE_EQ(seconds("31000us"), 0.031);
    EXPECT_DOUBLE_EQ(seconds("0.031"), 0.031);
    EXPECT_DOUBLE_EQ(seconds("2s"), 2);
    const std::vector<MeasuredStep> two = parse_steps("64:31ms,128:58ms", 32);
    ASSERT_EQ(two.size(), 2u);
    EXPECT_EQ(two[0].batch, 64);
    EXPECT_EQ(two[1].batch, 128);
    EXPECT_DOUBLE_EQ(two[1].seconds, 0.058);
    for (const char* text : {"31min", "0ms", "x", "64:", "0:31ms", "-1ms"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--step"}, [&] { parse_steps(text, 32); })) << text;
}

}  // namespace
}  // namespace convoy::test
