// Draws of mixing: shares have the requested Beta distribution, boxes lie in the allowed places,
// and a draw depends only on seed, epoch and sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "ops/mix.h"

namespace convoy::test {
namespace {

constexpr uint32_t draws = 10'000;

Augment mixing(float mixup, float cutmix) {
    Augment a;
    a.mixup = mixup;
    a.cutmix = cutmix;
    return a;
}

std::vector<double> shares(double alpha) {
    std::vector<double> all;
    for (uint32_t sample = 0; sample < draws; ++sample) all.push_back(draw_share(alpha, 3, 1, sample));
    return all;
}

TEST(Mix, SharesHaveTheMeanAndVarianceOfBeta) {
    for (const double alpha : {0.01, 0.1, 0.2, 0.4, 1.0}) {
        double sum = 0, squares = 0;
        for (const double share : shares(alpha)) {
            ASSERT_TRUE(share >= 0 && share <= 1) << share;
            sum += share;
            squares += (share - 0.5) * (share - 0.5);
        }
        // (share - 1/2)^2 is at most 1/4, so its deviation is smaller; bounds are five deviations
        // of a mean of 10,000.
        const double variance = 1 / (4 * (2 * alpha + 1));
        EXPECT_NEAR(sum / draws, 0.5, 5 * std::sqrt(variance / draws)) << "alpha " << alpha;
        EXPECT_NEAR(squares / draws, variance, 5 * 0.25 / std::sqrt(double(draws))) << "alpha " << alpha;
    }
}

// Beta(1, 1) is uniform, Beta(1/2, 1/2) the arcsine distribution; compared by the
// Kolmogorov-Smirnov distance.
TEST(Mix, SharesHaveTheDistributionOfBeta) {
    const auto distance = [](double alpha, const std::function<double(double)>& distribution) {
        std::vector<double> all = shares(alpha);
        std::sort(all.begin(), all.end());
        double most = 0;
        for (size_t i = 0; i < all.size(); ++i)
            most = std::max(most, std::abs(distribution(all[i]) - (double(i) + 0.5) / draws));
        return most;
    };
    const double bound = 1.95 / std::sqrt(double(draws));  // exceeded once in a thousand seeds
    EXPECT_LT(distance(1, [](double x) { return x; }), bound);
    EXPECT_LT(distance(0.5, [](double x) { return 2 / M_PI * std::asin(std::sqrt(x)); }), bound);
    EXPECT_GT(distance(0.5, [](double x) { return x; }), bound) << "they can be told apart";
}

TEST(Mix, MixupHasNoBox) {
    const Augment a = mixing(0.3f, 0);
    for (uint32_t sample = 0; sample < 100; ++sample) {
        const Mix m = draw_mix(a, 6, 9, 3, 1, sample);
        EXPECT_EQ(m.share, float(draw_share(double(0.3f), 3, 1, sample)));
        for (int i = 0; i < 6; ++i)
            for (int j = 0; j < 9; ++j) ASSERT_EQ(m.own(i, j), m.share);
    }
}

TEST(Mix, CutMixSharesThePixels) {
    const Augment a = mixing(0, 1);
    std::vector<int> of_partners(7 * 5);
    double sum = 0;
    for (uint32_t sample = 0; sample < draws; ++sample) {
        const Mix m = draw_mix(a, 7, 5, 3, 1, sample);
        int own = 0;
        for (int i = 0; i < 7; ++i)
            for (int j = 0; j < 5; ++j) {
                const float share = m.own(i, j);
                ASSERT_TRUE(share == 0 || share == 1);
                own += int(share);
                of_partners[i * 5 + j] += share == 0;
            }
        ASSERT_FLOAT_EQ(m.share, float(own) / 35);
        sum += double(m.share);
    }
    EXPECT_GT(sum / draws, 0.5) << "what is cut off at the borders stays";
    for (const int count : of_partners) EXPECT_GT(count, int(draws) / 20) << "every pixel may be in the box";
}

TEST(Mix, EitherWayHasHalfOfTheImages) {
    const Augment both = mixing(1, 1);
    int cut = 0;
    for (uint32_t sample = 0; sample < draws; ++sample) {
        const Mix m = draw_mix(both, 32, 32, 3, 1, sample), only_cut = draw_mix(mixing(0, 1), 32, 32, 3, 1, sample),
                  only_mix = draw_mix(mixing(1, 0), 32, 32, 3, 1, sample);
        const Mix& as = m.outside == 1 ? only_cut : only_mix;
        ASSERT_TRUE(m.share == as.share && m.top == as.top && m.right == as.right);
        cut += m.outside == 1;
    }
    EXPECT_NEAR(cut, draws / 2, 250) << "five deviations";
}

TEST(Mix, IsOfSeedEpochAndSample) {
    const auto share = [](uint64_t seed, uint32_t epoch, uint32_t sample) {
        return draw_share(1, seed, epoch, sample);
    };
    EXPECT_EQ(share(3, 1, 5), share(3, 1, 5));
    EXPECT_NE(share(3, 1, 5), share(4, 1, 5));
    EXPECT_NE(share(3, 1, 5), share(3, 2, 5));
    EXPECT_NE(share(3, 1, 5), share(3, 1, 6));
}

TEST(Mix, TheLargerShareIsWhatCounts) {
    EXPECT_EQ((Target{3, 8, 0.51}.larger()), 3);
    EXPECT_EQ((Target{3, 8, 0.49}.larger()), 8);
    EXPECT_EQ((Target{3, 8, 0.5}.larger()), 3) << "its own";
    EXPECT_EQ((Target{3, 3, 0.25}.of(3)), 1) << "two of one class";
}

}  // namespace
}  // namespace convoy::test
