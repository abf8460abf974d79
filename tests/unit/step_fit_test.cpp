// The step model from measured steps: steps made from known factors give these factors back.
#include "plan/step_fit.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/models.h"

namespace convoy::test {
namespace {

constexpr double near = 1e-6;  // tolerance of bisection and of least squares

Cluster dgx1() {
    Cluster c;
    c.nodes = 4;
    c.ranks_per_node = 8;
    c.node_bandwidth = 130e9;
    c.adapters = 1;
    c.adapter_bandwidth = 12e9;
    c.gpu = GpuGeneration::volta;
    return c;
}

StepWork resnet50() {
    StepWork work;
    work.gradients = ready_gradients(build_model({.name = "resnet50", .h = 224, .w = 224, .c = 3, .classes = 1000}));
    return work;
}

/// Returns the model that the fit must find.
StepModel truth() {
    return {.alone = {.fixed = 0.012, .per_sample = 0.0007},
            .host_loss = {0.05, 0.05, 0.05},
            .interference = {0.3, 0.3, 0.3},
            .spread = {0.01, 0.01, 0.01}};
}

/// Returns a measurement of a machine that behaves like the model.
MeasuredStep measured(const StepModel& m, int ranks, int64_t batch, const Cluster& c = dgx1()) {
    StepWork work = resnet50();
    work.batch = batch;
    return {.nodes = std::max(1, ranks / 8),
            .ranks = ranks,
            .batch = batch,
            .seconds = predict_step(m, work, c, ranks).step,
            .spread = 0.01};
}

FittedStep fit(const std::vector<MeasuredStep>& steps) { return fit_step(steps, resnet50(), dgx1()); }

/// Returns a measurement of one rank, which has no all-reduce.
MeasuredStep single(int64_t batch, double seconds) { return {.batch = batch, .seconds = seconds}; }

TEST(StepFit, WithoutAMeasurementIsRefused) {
    try {
        fit({});
        FAIL() << "not refused";
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
    }
}

TEST(StepFit, TwoBatchesGiveALine) {
    const FittedStep f = fit({single(32, 0.0344), single(128, 0.1016)});
    EXPECT_NEAR(f.model.alone.per_sample, 0.0007, near * 0.0007);
    EXPECT_NEAR(f.model.alone.fixed, 0.012, near * 0.012);
    EXPECT_NEAR(f.model.alone.at(64), 0.012 + 64 * 0.0007, near);
    EXPECT_TRUE(f.assumed.empty());
    EXPECT_EQ(f.model.ranks_of_times, 1);
    EXPECT_FALSE(f.model.network_measured);
}

TEST(StepFit, MoreBatchesGiveTheLineOfLeastSquaresAndMeasuredOnesStay) {
    // x 1, 2, 3; y 1, 2, 2: slope 1/2, intercept 2/3
    const FittedStep f = fit({single(1, 1), single(2, 2), single(3, 2)});
    EXPECT_NEAR(f.model.alone.per_sample, 0.5, near);
    EXPECT_NEAR(f.model.alone.fixed, 2.0 / 3, near);
    EXPECT_NEAR(f.model.alone.at(2), 2, near);
    EXPECT_NEAR(f.model.alone.at(4), 2 + 2.0 / 3, near);
    // a batch that was measured several times counts with its median
    const FittedStep repeated = fit({single(1, 1), single(3, 2), single(3, 5), single(3, 2.5)});
    EXPECT_NEAR(repeated.model.alone.at(3), 2.5, near);
}

TEST(StepFit, LinesHaveNoNegativePart) {
    // the line through 10: 1 s and 20: 3 s begins at -1; so times are proportional, with the mean
    // of 0.1 and 0.15
    StepTimes times = fit({single(10, 1), single(20, 3)}).model.alone;
    EXPECT_EQ(times.fixed, 0);
    EXPECT_NEAR(times.per_sample, 0.125, near);
    // larger batches were faster: constant
    times = fit({single(10, 3), single(20, 1)}).model.alone;
    EXPECT_EQ(times.per_sample, 0);
    EXPECT_NEAR(times.fixed, 2, near);
}

TEST(StepFit, OneBatchIsTakenInProportionAndSaid) {
    const FittedStep f = fit({single(128, 0.256), measured(truth(), 8, 256)});
    EXPECT_EQ(f.model.alone.fixed, 0);
    EXPECT_NEAR(f.model.alone.at(64), 0.128, near);
    ASSERT_EQ(f.assumed.size(), 1u);
    EXPECT_NE(f.assumed[0].find("only steps with batch 128"), std::string::npos) << f.assumed[0];
}

TEST(StepFit, FactorsThatNobodyMeasuredAreTheUsualOnes) {
    const StepModel m = fit({single(32, 0.0344), single(128, 0.1016)}).model, usual = usual_factors();
    EXPECT_EQ(m.host_loss.value, usual.host_loss.value);
    EXPECT_EQ(m.interference.value, usual.interference.value);
    EXPECT_EQ(m.spread.value, usual.spread.value);
    for (const Factor& f : {m.host_loss, m.interference, m.spread}) {
        EXPECT_FALSE(f.measured());
        EXPECT_LE(f.low, f.value);
        EXPECT_LT(f.value, f.high);
    }
    EXPECT_EQ(m.network_share, 1);
}

TEST(StepFit, RunsOnANodeGiveItsLoss) {
    StepModel m = truth();
    m.interference = usual_factors().interference;
    const FittedStep f = fit({measured(m, 1, 128), measured(m, 8, 128)});
    EXPECT_NEAR(f.model.host_loss.value, 0.05, near);
    EXPECT_TRUE(f.model.host_loss.measured());
    EXPECT_FALSE(f.model.interference.measured());
    // the median of 2, 4 and 8 ranks
    std::vector<MeasuredStep> steps = {measured(m, 1, 128)};
    for (const auto& [ranks, loss] : {std::pair(2, 0.2), {4, 0.07}, {8, 0.03}}) {
        m.host_loss.value = loss;
        steps.push_back(measured(m, ranks, 128));
    }
    EXPECT_NEAR(fit(steps).model.host_loss.value, 0.07, near);
}

// These runs define the line, so they give no other information.
TEST(StepFit, RunsThatTheLineIsFromGiveNoLossOfTheNode) {
    StepModel m = usual_factors();
    m.alone = truth().alone;
    m.ranks_of_times = 2;
    const FittedStep f = fit({measured(m, 2, 64), measured(m, 8, 256)});
    EXPECT_FALSE(f.model.host_loss.measured());
    EXPECT_NEAR(f.model.alone.fixed, 0.012, near);
    // a second run of the first one's batch is not on the line
    EXPECT_TRUE(fit({measured(m, 2, 64), measured(m, 8, 64)}).model.host_loss.measured());
}

TEST(StepFit, ANodeThatIsQuickerThanOneRankLosesNothing) {
    EXPECT_NEAR(fit({single(128, 0.2), {.nodes = 1, .ranks = 8, .batch = 128, .seconds = 0.15}}).model.host_loss.value,
                0, near);
}

TEST(StepFit, RunsOnSeveralNodesGiveInterference) {
    // h is not measured here, and has its usual value
    StepModel m = truth();
    m.host_loss = usual_factors().host_loss;
    FittedStep f = fit({measured(m, 1, 128), measured(m, 16, 128)});
    EXPECT_NEAR(f.model.interference.value, 0.3, near);
    EXPECT_TRUE(f.model.interference.measured());
    EXPECT_NEAR(f.model.network_share, 1, near);
    EXPECT_TRUE(f.model.network_measured);
    // the fit then reproduces the other sizes
    StepWork work = resnet50();
    work.batch = 128;
    EXPECT_NEAR(predict_step(f.model, work, dgx1(), 32).step, measured(m, 32, 128).seconds, near);
    // the median of several
    std::vector<MeasuredStep> steps = {measured(m, 1, 128)};
    for (const auto& [ranks, kappa] : {std::pair(16, 0.9), {24, 0.2}, {32, 0.4}}) {
        m.interference.value = kappa;
        steps.push_back(measured(m, ranks, 128));
    }
    f = fit(steps);
    EXPECT_NEAR(f.model.interference.value, 0.4, near);
}

TEST(StepFit, WhatInterferenceCannotExplainIsTheNetworksShare) {
    StepModel m = truth();
    m.host_loss = usual_factors().host_loss;
    m.interference.value = 1;
    m.network_share = 0.4;
    const FittedStep f = fit({measured(m, 1, 64), measured(m, 16, 64)});
    EXPECT_NEAR(f.model.interference.value, 1, near);
    EXPECT_NEAR(f.model.network_share, 0.4, near);
    StepWork work = resnet50();
    work.batch = 64;
    EXPECT_NEAR(predict_step(f.model, work, dgx1(), 32).step, measured(m, 32, 64).seconds, near);
}

// MLPerf's results have no run on one rank, and another batch on every number of nodes.
TEST(StepFit, RunsOnSeveralNodesAloneGiveALineToo) {
    StepModel m = usual_factors();
    m.alone = truth().alone;
    m.ranks_of_times = 8;  // all include the loss of a full node
    // the row with the fewest ranks need not come first
    const FittedStep f = fit({measured(m, 32, 64), measured(m, 8, 400)});
    EXPECT_EQ(f.model.ranks_of_times, 8);
    EXPECT_NEAR(f.model.alone.fixed, 0.012, near);
    EXPECT_NEAR(f.model.alone.per_sample, 0.0007, near * 0.0007);
    EXPECT_TRUE(f.model.network_measured);
    EXPECT_TRUE(f.assumed.empty());
    // only the time on the fewest ranks is used as measured; the others went through the model
    EXPECT_EQ(f.model.alone.measured.size(), 1u);
    EXPECT_EQ(f.model.alone.measured.count(400), 1u);
    StepWork work = resnet50();
    work.batch = 100;
    EXPECT_NEAR(predict_step(f.model, work, dgx1(), 16).step, measured(m, 16, 100).seconds, near);
    // The line explains both, so they give no information about interference.
    EXPECT_FALSE(f.model.interference.measured());
    const MeasuredStep half{.nodes = 1, .ranks = 4, .batch = 400, .seconds = 0.3};
    EXPECT_EQ(fit({measured(m, 16, 64), half}).model.ranks_of_times, 4);
}

TEST(StepFit, NodesCountAsTheyRan) {
    // 2 ranks on each of 2 nodes of 8: one of 3 hops of a ring is inside a node
    const MeasuredStep spread_out{.nodes = 2, .ranks = 4, .batch = 64, .seconds = 0.2};
    const FittedStep f = fit({spread_out});
    EXPECT_EQ(f.model.ranks_of_times, 2);
    Cluster pairs = dgx1();
    pairs.ranks_per_node = 2;
    StepWork work = resnet50();
    work.batch = 64;
    EXPECT_NEAR(predict_step(f.model, work, pairs, 4).step, 0.2, near);
}

TEST(StepFit, SpreadIsTheMedianOfThoseThatHaveOne) {
    std::vector<MeasuredStep> steps = {single(1, 1), single(2, 2), single(3, 3), single(4, 4)};
    steps[0].spread = 0.03;
    steps[1].spread = 0.01;
    steps[3].spread = 0.02;
    const Factor spread = fit(steps).model.spread;
    EXPECT_DOUBLE_EQ(spread.value, 0.02);
    EXPECT_TRUE(spread.measured());
}

// A step that waited for images gives an upper bound of its compute; it is not ignored.
TEST(StepFit, WaitingForImagesCountsAsCompute) {
    Cluster c = dgx1();
    c.images_per_second = 100;
    const FittedStep f = fit_step({single(10, 0.1), single(20, 0.19)}, resnet50(), c);
    EXPECT_NEAR(f.model.alone.at(10), 0.1, near);
    EXPECT_NEAR(f.model.alone.at(20), 0.19, near);
}

}  // namespace
}  // namespace convoy::test
