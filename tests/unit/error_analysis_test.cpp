// The figures of `evaluate --report`, compared with values computed by hand, and its HTML page.
#include "report/error_analysis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/png_file.h"
#include "report/error_page.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Logits of which class `best` has the probability `confidence`, and the others share the rest.
std::vector<float> logits_of(int classes, int best, double confidence) {
    std::vector<float> logits(size_t(classes), float(std::log((1 - confidence) / (classes - 1))));
    logits[best] = float(std::log(confidence));
    return logits;
}

// Values of R's binom.confint(method = "wilson").
TEST(ErrorAnalysis, IntervalsAreWilsons) {
    EXPECT_NEAR(wilson_interval(0, 10).high, 0.27753, 5e-6);
    EXPECT_EQ(wilson_interval(0, 10).low, 0);
    EXPECT_NEAR(wilson_interval(5, 10).low, 0.23659, 5e-6);
    EXPECT_NEAR(wilson_interval(5, 10).high, 0.76341, 5e-6);
    EXPECT_NEAR(wilson_interval(10, 10).high, 1, 1e-12);
    EXPECT_EQ(wilson_interval(0, 0).low, 0);
    EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

TEST(ErrorAnalysis, CountsImagesByLabelAndPrediction) {
    ErrorAnalysis a(7);
    a.add(0, logits_of(7, 2, 0.9), 2);
    a.add(1, logits_of(7, 2, 0.8), 1);
    a.add(2, std::vector<float>{0, 1, 2, 3, 4, 5, 6}, 1);  // the label is the sixth best
    a.add(3, std::vector<float>{0, 1, 2, 3, 4, 5, 6}, 2);  // the fifth best
    EXPECT_EQ(a.images(), 4);
    EXPECT_EQ(a.correct(), 1);
    EXPECT_EQ(a.correct_in_five(), 3);
    EXPECT_EQ(a.count(1, 2), 1);
    EXPECT_EQ(a.count(1, 6), 1);
    EXPECT_EQ(a.images_of(1), 2);
    EXPECT_EQ(a.predicted_as(2), 2);
    double sum = 0;
    for (int i = 0; i < 7; ++i) sum += std::exp(i - 6.0);
    const double losses = -std::log(0.9) - std::log(0.2 / 6) + (std::log(sum) + 5) + (std::log(sum) + 4);
    EXPECT_NEAR(a.loss(), losses / 4, 1e-6);
    const std::vector<Confusion> confusions = largest_confusions(a, 2);
    ASSERT_EQ(confusions.size(), 2u);
    EXPECT_EQ(confusions[0].label, 1);
    EXPECT_EQ(confusions[0].predicted, 2);
}

TEST(ErrorAnalysis, CalibrationErrorIsTheWeightedDistanceOfItsBins) {
    ErrorAnalysis a(10);
    for (int i = 0; i < 4; ++i) a.add(i, logits_of(10, 3, 0.95), i < 2 ? 3 : 4);  // half of them right
    for (int i = 4; i < 10; ++i) a.add(i, logits_of(10, 3, 0.5), 3);              // all right
    EXPECT_NEAR(a.calibration_error(), (4 * 0.45 + 6 * 0.5) / 10, 1e-6);
    EXPECT_EQ(a.bins()[14].images, 4);
    EXPECT_EQ(a.bins()[7].images, 6);
}

TEST(ErrorAnalysis, KeepsTheMostConfidentMistakes) {
    ErrorAnalysis a(3, 2);
    for (int i = 0; i < 10; ++i) a.add(i, logits_of(3, 1, 0.5 + 0.04 * ((i * 7) % 10)), i == 9 ? 1 : 0);
    ASSERT_EQ(a.mistakes().size(), 2u);
    EXPECT_EQ(a.mistakes()[0].image, 7);  // 49 % 10 = 9
    EXPECT_EQ(a.mistakes()[1].image, 4);  // 28 % 10 = 8
    EXPECT_NEAR(a.mistakes()[0].confidence, 0.86, 1e-6);
    EXPECT_NEAR(a.mistakes()[0].of_the_label, 0.07, 1e-6);
}

TEST(ErrorAnalysis, RefusesOutputsThatAreNoNumbers) {
    ErrorAnalysis a(2);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"image 7", "not finite"},
                                   [&] { a.add(7, std::vector<float>{0, NAN}, 0); }));
}

TEST(ErrorAnalysis, PageEscapesNames) {
    ErrorAnalysis a(2);
    a.add(0, logits_of(2, 0, 0.9), 1);
    const std::string page =
        error_page(a, {"<b>m", "d&d", "test", {"<script>alert(1)</script>", "\"'\x1b[2J"}}, {{1, 2, 3}});
    EXPECT_EQ(page.find("<script"), std::string::npos);
    EXPECT_EQ(page.find('\x1b'), std::string::npos);
    EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
    EXPECT_NE(page.find("&lt;b&gt;m on d&amp;d (test)"), std::string::npos);
    EXPECT_NE(page.find("&quot;&#39;\\x1b[2J"), std::string::npos) << page;
    EXPECT_NE(page.find("base64,AQID\""), std::string::npos);
}

TEST(ErrorAnalysis, MatricesOfManyClassesAreDrawn) {
    ErrorAnalysis a(1000);
    for (int i = 0; i < 1000; ++i) a.add(i, logits_of(1000, i == 5 ? 6 : i, 0.9), i);
    RgbImage decoded;
    decode_image(png_of(confusion_picture(a)), decoded);
    ASSERT_EQ(decoded.width, 1000);
    const auto pixel = [&](int y, int x) { return &decoded.pixels[(y * 1000 + x) * 3]; };
    EXPECT_LT(pixel(4, 4)[0], 100);  // blue
    EXPECT_EQ(pixel(5, 5)[0], 255);  // white
    EXPECT_GT(pixel(5, 6)[0], 150);  // red
    EXPECT_LT(pixel(5, 6)[2], 100);
    const std::vector<std::string> names(1000, "n");
    const std::string page = error_page(a, {"m", "d", "test", names}, {});
    EXPECT_NE(page.find("<img id=confusion"), std::string::npos);
}

// A matrix of 20,000 classes would have 400 million cells.
TEST(ErrorAnalysis, ManyClassesTakeMemoryInProportion) {
    constexpr int classes = 20'000;
    ErrorAnalysis a(classes);
    for (int i = 0; i < 20; ++i) a.add(i, logits_of(classes, i, 0.9), i == 3 ? 4 : i);
    EXPECT_EQ(a.pairs().size(), 20u);
    const std::string page = error_page(a, {"m", "d", "test", std::vector<std::string>(classes, "n")}, {});
    EXPECT_LT(page.size(), 20'000u);
    EXPECT_NE(page.find("confusion.csv has it"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
