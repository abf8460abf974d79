// Learning-rate schedules at known points.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/train_options.h"
#include "plan/schedule.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

// Returns the rate at a step; 10 steps per epoch, 100 steps in all.
double rate(const Schedule& s, int64_t step) { return learning_rate(s, step, 10, 100); }

TEST(Schedule, EachKindAtKnownPoints) {
    Schedule s;
    s.base = 0.4;
    EXPECT_DOUBLE_EQ(rate(s, 0), 0.4);
    EXPECT_DOUBLE_EQ(rate(s, 99), 0.4);
    s.kind = Schedule::step;
    s.step_epochs = 3;
    EXPECT_DOUBLE_EQ(rate(s, 29), 0.4);
    EXPECT_DOUBLE_EQ(rate(s, 30), 0.04);
    EXPECT_DOUBLE_EQ(rate(s, 60), 0.004);
    s.kind = Schedule::multistep;
    s.milestones = {5, 7.5};
    s.gamma = 0.5;
    EXPECT_DOUBLE_EQ(rate(s, 49), 0.4);
    EXPECT_DOUBLE_EQ(rate(s, 50), 0.2);
    EXPECT_DOUBLE_EQ(rate(s, 74), 0.2);
    EXPECT_DOUBLE_EQ(rate(s, 75), 0.1);
    s.kind = Schedule::cosine;
    EXPECT_DOUBLE_EQ(rate(s, 0), 0.4);
    EXPECT_NEAR(rate(s, 50), 0.2, 1e-15);
    EXPECT_NEAR(rate(s, 25), 0.2 * (1 + std::sqrt(0.5)), 1e-15);
    EXPECT_GT(rate(s, 99), 0);
    s.kind = Schedule::linear;
    s.points = {{1, 0.5}, {3, 1}, {8, 0}};
    EXPECT_DOUBLE_EQ(rate(s, 0), 0.2);
    EXPECT_DOUBLE_EQ(rate(s, 20), 0.3);
    EXPECT_DOUBLE_EQ(rate(s, 30), 0.4);
    EXPECT_DOUBLE_EQ(rate(s, 55), 0.2);
    EXPECT_DOUBLE_EQ(rate(s, 99), 0);
}

// 29 % of 100 steps are 28.999999999999996 in double, and 7 % are 7.000000000000001.
TEST(Schedule, PointsInPercentAreAtWholeSteps) {
    Schedule s;
    s.base = 0.4;
    s.kind = Schedule::linear;
    s.points_of_run = true;
    for (const int percent : {7, 29, 57, 58}) {
        s.points = {{0, 0.5}, {percent / 100.0, 1}, {1, 0}};
        EXPECT_DOUBLE_EQ(rate(s, percent), 0.4) << percent;
        EXPECT_LT(rate(s, percent - 1), 0.4) << percent;
        EXPECT_LT(rate(s, percent + 1), 0.4) << percent;
    }
    s.points = {{0, 0.5}, {0.295, 1}, {1, 0}};
    EXPECT_DOUBLE_EQ(rate(s, 29), 0.4) << "the last whole step before it";
}

TEST(Schedule, WarmUpIsLinearAndMultiplies) {
    Schedule s;
    s.base = 0.4;
    s.warmup_epochs = 2;
    EXPECT_DOUBLE_EQ(rate(s, 0), 0.02) << "the first step already learns";
    EXPECT_DOUBLE_EQ(rate(s, 9), 0.2);
    EXPECT_DOUBLE_EQ(rate(s, 19), 0.4);
    EXPECT_DOUBLE_EQ(rate(s, 20), 0.4);
    s.kind = Schedule::step;
    s.step_epochs = 1;
    EXPECT_DOUBLE_EQ(rate(s, 14), 0.4 * 0.75 * 0.1);
}

TEST(Schedule, UnknownNamesAreUsageErrors) {
    const auto kind = [](const std::string& name) {
        return parse_train_options({"--data", "x", "--batch-size", "8", "--lr-schedule", name}).options.lr_schedule;
    };
    EXPECT_EQ(kind("cosine"), Schedule::cosine);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"cosin", "multistep"}, [&] { kind("cosin"); }));
}

}  // namespace
}  // namespace convoy::test
