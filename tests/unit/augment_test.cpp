// Tests where a crop reads, and how crops and flips are drawn.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "ops/augment.h"

namespace convoy::test {
namespace {

TEST(Augment, SourcesOfACrop) {
    const auto sources = [](bool reflect, int shift) {
        std::vector<int> all;
        for (int i = 0; i < 5; ++i) all.push_back(source_index({2, reflect, false}, i, shift, 5));
        return all;
    };
    EXPECT_EQ(sources(true, 0), (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_EQ(sources(true, -2), (std::vector<int>{2, 1, 0, 1, 2}));
    EXPECT_EQ(sources(true, 2), (std::vector<int>{2, 3, 4, 3, 2}));
    EXPECT_EQ(sources(false, -2), (std::vector<int>{-1, -1, 0, 1, 2}));
    EXPECT_EQ(sources(false, 2), (std::vector<int>{2, 3, 4, -1, -1}));
}

TEST(Augment, DrawsCoverEveryShiftAlike) {
    const Augment a{4, false, true};
    std::vector<int> rows(9), columns(9);
    int mirrored = 0;
    for (uint32_t sample = 0; sample < 9000; ++sample) {
        const AugmentDraw d = draw_augment(a, 1, 0, sample);
        ASSERT_TRUE(std::abs(d.dy) <= 4 && std::abs(d.dx) <= 4);
        ++rows[d.dy + 4];
        ++columns[d.dx + 4];
        mirrored += d.mirror;
    }
    for (size_t i = 0; i < 9; ++i) {  // five deviations of a binomial with mean 1,000
        EXPECT_NEAR(rows[i], 1000, 150);
        EXPECT_NEAR(columns[i], 1000, 150);
    }
    EXPECT_NEAR(mirrored, 4500, 240);
    EXPECT_FALSE(draw_augment({4, false, false}, 1, 0, 3).mirror);
    EXPECT_EQ(draw_augment({0, false, true}, 1, 0, 3).dy, 0);
}

// torchvision's RandomResizedCrop with other random numbers: the same means.
TEST(Augment, RandomWindowsAreDrawnAsTorchvisionDoes) {
    const Augment a{.crop = Crop::random_resized};
    constexpr int height = 200, width = 300, draws = 20'000;
    std::mt19937_64 engine(1);
    const auto uniform = [&](double low, double high) { return std::uniform_real_distribution(low, high)(engine); };
    const auto reference = [&]() -> Window {
        for (;;) {  // ten misses in a row are too rare to matter at these sides
            const double area = height * width * uniform(0.08, 1),
                         ratio = std::exp(uniform(std::log(3.0 / 4), std::log(4.0 / 3)));
            const int w = int(std::lround(std::sqrt(area * ratio))), h = int(std::lround(std::sqrt(area / ratio)));
            if (w > 0 && w <= width && h > 0 && h <= height)
                return {int(uniform(0, height - h + 1)), int(uniform(0, width - w + 1)), h, w};
        }
    };
    std::array<double, 5> sum{}, square{}, wanted{};
    const auto figures = [](const Window& w) {
        return std::array<double, 5>{double(w.height) * w.width, std::log(double(w.width) / w.height), double(w.top),
                                     double(w.left), double(w.top) * w.height};
    };
    for (uint32_t sample = 0; sample < draws; ++sample) {
        const Window w = draw_window(a, height, width, 3, 1, sample);
        ASSERT_TRUE(w.top >= 0 && w.left >= 0 && w.height > 0 && w.width > 0 && w.top + w.height <= height &&
                    w.left + w.width <= width);
        const double share = double(w.height) * w.width / (height * width), ratio = double(w.width) / w.height;
        ASSERT_TRUE(share > 0.078 && share <= 1 && ratio > 0.74 && ratio < 1.35) << "sides are rounded";
        const auto own = figures(w), other = figures(reference());
        for (size_t i = 0; i < own.size(); ++i) {
            sum[i] += own[i] / draws;
            square[i] += own[i] * own[i] / draws;
            wanted[i] += other[i] / draws;
        }
    }
    for (size_t i = 0; i < sum.size(); ++i) {
        const double deviation = std::sqrt((square[i] - sum[i] * sum[i]) / draws);
        EXPECT_NEAR(sum[i], wanted[i], 5 * std::sqrt(2) * deviation) << "figure " << i;
    }
}

TEST(Augment, WhereNoWindowFitsItIsTheLargestInTheMiddle) {
    const Augment whole{.crop = Crop::random_resized, .scale_low = 1};
    const auto is = [](const Window& w, int top, int left, int height, int width) {
        EXPECT_EQ((std::array{w.top, w.left, w.height, w.width}), (std::array{top, left, height, width}));
    };
    is(draw_window(whole, 10, 1000, 1, 0, 0), 0, 493, 10, 13);
    is(draw_window(whole, 1000, 10, 1, 0, 0), 493, 0, 13, 10);
    is(draw_window(whole, 1, 1, 1, 0, 0), 0, 0, 1, 1);
    const Augment narrow{.crop = Crop::random_resized, .scale_low = 1, .ratio_low = 0.01f, .ratio_high = 0.01f};
    is(draw_window(narrow, 32, 32, 1, 0, 0), 0, 15, 32, 1);
}

TEST(Augment, ResizedSizesAreTorchvisions) {
    const Augment a{.fixed = true, .crop = Crop::centre, .short_side = 256};
    const auto is = [&](int height, int width, int rows, int columns, int y, int x) {
        const Resampling r = draw_resampling(a, height, width, 224, 224, 1, 0, 0);
        EXPECT_EQ((std::array{r.top, r.left, r.height, r.width}), (std::array{0, 0, height, width}));
        EXPECT_EQ((std::array{r.rows, r.columns, r.y, r.x}), (std::array{rows, columns, y, x}));
    };
    is(375, 500, 256, 341, 16, 58);  // 58.5 goes to even, as Python rounds
    is(500, 375, 341, 256, 58, 16);
    is(256, 256, 256, 256, 16, 16);
    is(100, 301, 256, 770, 16, 273);
}

}  // namespace
}  // namespace convoy::test
