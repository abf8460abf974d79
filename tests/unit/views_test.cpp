// Views of a test image that an evaluation averages.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/support/support.h"
#include "train/evaluator.h"

namespace convoy::test {
namespace {

using View = std::tuple<int, int, bool, float>;  // dy, dx, mirrored, weight

std::set<View> views(Tta tta) {
    std::set<View> all;
    for (const auto& [view, weight] : views_of(tta, {{0.5f}, {0.25f}})) {
        EXPECT_TRUE(tta == Tta::plain || (view.fixed && view.reflect)) << "nothing is drawn";
        all.insert({view.dy, view.dx, view.mirror, weight});
    }
    return all;
}

// The weights of airbench94's evaluation.
TEST(Views, AreTheImageItsMirrorImageAndThoseShiftedByAPixel) {
    EXPECT_EQ(views(Tta::plain), (std::set<View>{{0, 0, false, 1.0f}}));
    EXPECT_EQ(views(Tta::mirror), (std::set<View>{{0, 0, false, 0.5f}, {0, 0, true, 0.5f}}));
    EXPECT_EQ(views(Tta::full), (std::set<View>{{0, 0, false, 0.25f},
                                                {0, 0, true, 0.25f},
                                                {-1, -1, false, 0.125f},
                                                {-1, -1, true, 0.125f},
                                                {1, 1, false, 0.125f},
                                                {1, 1, true, 0.125f}}));
}

TEST(Views, NeedImagesThatHaveThem) {
    const auto problem = [](Tta tta, int height, int width, int short_side, DType type, const std::string& word) {
        SplitInfo data;
        data.height = height;
        data.width = width;
        data.type = type;
        Preprocessing preprocessing{{0.5f}, {0.25f}};
        preprocessing.short_side = short_side;
        return problem_of_error(Exit::usage, {"--tta", word}, [&] { check_views(tta, data, preprocessing); });
    };
    EXPECT_EQ("", problem(Tta::full, 8, 8, 8, DType::u8, "are resized"));
    EXPECT_EQ("", problem(Tta::full, 1, 8, 0, DType::u8, "only one"));
    EXPECT_EQ("", problem(Tta::full, 8, 1, 0, DType::u8, "only one"));
    EXPECT_EQ("", problem(Tta::mirror, 8, 8, 0, DType::f32, "vectors"));
    for (const Tta tta : {Tta::plain, Tta::mirror, Tta::full}) {
        SplitInfo data;
        data.height = data.width = 2;
        EXPECT_NO_THROW(check_views(tta, data, {{0.5f}, {0.25f}}));
    }
}

}  // namespace
}  // namespace convoy::test
