// Where a crop reads, and how crops and flips are drawn.
#include <gtest/gtest.h>

#include "backend/augment.h"

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
        ++rows[size_t(d.dy + 4)];
        ++columns[size_t(d.dx + 4)];
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

}  // namespace
}  // namespace convoy::test
