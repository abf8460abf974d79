// Sums that an epoch computes from its steps.
#include <gtest/gtest.h>

#include "train/epoch_summary.h"

namespace convoy::test {
namespace {

TEST(EpochSummary, AddUpEveryField) {
    StepRecord a, b;
    a.images = 10;
    a.loss = 2;
    a.accuracy = 0.5;
    a.top5_accuracy = 0.75;
    a.own_images = 4;
    a.own.loss_sum = 9;
    a.own.correct = 3;
    a.own.top5 = 4;
    a.step_seconds = 1;
    a.data_seconds = 0.25;
    a.comm_exposed_seconds = 0.125;
    b = a;
    b.images = 6;
    b.loss = 1;
    b.step_seconds = 3;
    b.data_seconds = 0.5;
    b.comm_exposed_seconds = 0.5;
    EpochSummary e;
    e.add(a);
    e.add(b);
    EXPECT_EQ(e.steps, 2);
    EXPECT_EQ(e.all.images, 16);
    EXPECT_DOUBLE_EQ(e.all.loss(), (2 * 10 + 1 * 6) / 16.0) << "by images";
    EXPECT_DOUBLE_EQ(e.all.accuracy(), 0.5);
    EXPECT_DOUBLE_EQ(e.all.top5_accuracy(), 0.75);
    EXPECT_EQ(e.own.images, 8);
    EXPECT_DOUBLE_EQ(e.own.loss(), 18 / 8.0);
    EXPECT_DOUBLE_EQ(e.own.accuracy(), 6 / 8.0);
    EXPECT_DOUBLE_EQ(e.step_seconds, 4);
    EXPECT_DOUBLE_EQ(e.data_seconds, 0.75);
    EXPECT_DOUBLE_EQ(e.comm_exposed_seconds, 0.625);
}

}  // namespace
}  // namespace convoy::test
