// Draws of colour jitter: factors are uniform within their range, all orders are equally likely,
// and a draw depends only on seed, epoch and sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "ops/jitter.h"
#include "ops/mix.h"

namespace convoy::test {
namespace {

constexpr uint32_t draws = 10'000;

Augment jittering(float brightness, float contrast, float saturation, float hue) {
    Augment a;
    a.brightness = brightness;
    a.contrast = contrast;
    a.saturation = saturation;
    a.hue = hue;
    return a;
}

std::vector<Jitter> drawn(const Augment& a) {
    std::vector<Jitter> all;
    for (uint32_t sample = 0; sample < draws; ++sample) all.push_back(draw_jitter(a, 3, 1, sample));
    return all;
}

using Column = std::vector<double>;

Column column_of(const std::vector<Jitter>& all, float Jitter::* member) {
    Column column;
    for (const Jitter& j : all) column.push_back(double(j.*member));
    return column;
}

/// Returns the Kolmogorov-Smirnov distance from the uniform distribution on [low, high].
double distance_from_uniform(Column all, double low, double high) {
    std::sort(all.begin(), all.end());
    EXPECT_GE(all.front(), low);
    EXPECT_LE(all.back(), high);
    double most = 0;
    for (size_t i = 0; i < all.size(); ++i)
        most = std::max(most, std::abs((all[i] - low) / (high - low) - (double(i) + 0.5) / draws));
    return most;
}

const double bound = 1.95 / std::sqrt(double(draws));  // exceeded once in a thousand seeds

TEST(JitterDraws, FactorsAreUniform) {
    const std::vector<Jitter> all = drawn(jittering(0.5f, 0.25f, 1, 0.125f));
    EXPECT_LT(distance_from_uniform(column_of(all, &Jitter::brightness), 0.5, 1.5), bound);
    EXPECT_LT(distance_from_uniform(column_of(all, &Jitter::contrast), 0.75, 1.25), bound);
    EXPECT_LT(distance_from_uniform(column_of(all, &Jitter::saturation), 0, 2), bound);
    EXPECT_LT(distance_from_uniform(column_of(all, &Jitter::hue), -0.125, 0.125), bound);
    for (const Jitter& j : all) ASSERT_EQ(j.mean, 0);
}

TEST(JitterDraws, AFactorIsNeverNegative) {
    EXPECT_LT(distance_from_uniform(column_of(drawn(jittering(3, 0, 0, 0)), &Jitter::brightness), 0, 4), bound);
}

TEST(JitterDraws, WhatIsOffStaysAsItIs) {
    for (const Jitter& j : drawn(jittering(0, 0, 0, 0)))
        ASSERT_TRUE(j.brightness == 1 && j.contrast == 1 && j.saturation == 1 && j.hue == 0);
    EXPECT_FALSE(jittering(0, 0, 0, 0).jitters());
    EXPECT_TRUE(jittering(0.1f, 0, 0, 0).jitters() && jittering(0, 0.1f, 0, 0).jitters());
    EXPECT_TRUE(jittering(0, 0, 0.1f, 0).jitters() && jittering(0, 0, 0, 0.1f).jitters());
}

TEST(JitterDraws, AllOrdersAreAsLikely) {
    std::map<std::vector<Adjust>, int> counts;
    for (const Jitter& j : drawn(jittering(1, 1, 1, 0.5f))) ++counts[{j.order, j.order + 4}];
    EXPECT_EQ(counts.size(), 24u);
    double chi_square = 0;
    const double each = draws / 24.0;
    for (const auto& [order, count] : counts) {
        EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), Jitter().order));
        chi_square += (count - each) * (count - each) / each;
    }
    EXPECT_LT(chi_square, 49.7) << "23 degrees of freedom: exceeded once in a thousand seeds";
}

double correlation(const Column& a, const Column& b) {
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        mean_a += a[i] / double(a.size());
        mean_b += b[i] / double(b.size());
    }
    for (size_t i = 0; i < a.size(); ++i) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return ab / std::sqrt(aa * bb);
}

// Draws are also independent of everything else that is drawn for a sample.
TEST(JitterDraws, AreIndependentOfOneAnother) {
    Augment a = jittering(0.5f, 0.25f, 1, 0.125f);
    a.pad = 30;
    a.mixup = 1;
    a.cutmix = 1;
    const std::vector<Jitter> all = drawn(a);
    std::vector<Column> columns = {column_of(all, &Jitter::brightness), column_of(all, &Jitter::contrast),
                                   column_of(all, &Jitter::saturation), column_of(all, &Jitter::hue)};
    columns.resize(10);
    for (uint32_t sample = 0; sample < draws; ++sample) {
        const AugmentDraw shift = draw_augment(a, 3, 1, sample);
        const Mix mix = draw_mix(a, 32, 32, 3, 1, sample);
        columns[4].push_back(shift.dy);
        columns[5].push_back(shift.dx);
        columns[6].push_back(mix.outside == 1);
        columns[7].push_back(draw_share(1, 3, 1, sample));
        columns[8].push_back(int(all[sample].order[0]));
        columns[9].push_back(int(all[sample].order[3]));
    }
    for (size_t i = 0; i < 4; ++i)
        for (size_t k = i + 1; k < columns.size(); ++k)
            EXPECT_LT(std::abs(correlation(columns[i], columns[k])), 4.5 / std::sqrt(double(draws))) << i << " " << k;
}

TEST(JitterDraws, AreOfSeedEpochAndSample) {
    const Augment a = jittering(1, 1, 1, 0.5f);
    const auto jitter = [&](uint64_t seed, uint32_t epoch, uint32_t sample) {
        const Jitter j = draw_jitter(a, seed, epoch, sample);
        return std::vector<float>{j.brightness, j.contrast, j.saturation, j.hue};
    };
    EXPECT_EQ(jitter(3, 1, 5), jitter(3, 1, 5));
    const std::vector<float> one = jitter(3, 1, 5);
    for (const std::vector<float>& other : {jitter(4, 1, 5), jitter(3, 2, 5), jitter(3, 1, 6)})
        for (size_t i = 0; i < 4; ++i) EXPECT_NE(one[i], other[i]);
}

}  // namespace
}  // namespace convoy::test
