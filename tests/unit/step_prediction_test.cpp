// The time of a step: every term by hand, all-reduces by an explicit recurrence.
#include "plan/step_prediction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/models.h"
#include "plan/buckets.h"

namespace convoy::test {
namespace {

constexpr size_t MiB = size_t(1) << 20;
constexpr double rounding = 1e-12;  // seconds; formulas differ in the order of their operations

/// Returns a cluster with a table of all-reduce times by size, for 2 nodes of 4 ranks and for one.
Cluster tabled(double seconds_a_mib) {
    Cluster c;
    c.nodes = 2;
    c.ranks_per_node = 4;
    c.node_bandwidth = 100e9;
    c.adapters = 1;
    c.adapter_bandwidth = 10e9;
    for (const int nodes : {1, 2})
        for (const double mib : {1.0, 1024.0})
            c.all_reduces.push_back({nodes, 4, mib * double(MiB), mib * seconds_a_mib});
    return c;
}

/// Returns a model that has only compute: 10 ms and 1 ms per sample.
StepModel plain() {
    return {.alone = {.fixed = 0.010, .per_sample = 0.001},
            .host_loss = {0, 0, 0},
            .interference = {0, 0, 0},
            .spread = {0, 0, 0}};
}

/// Returns three gradients of 1, 2 and 4 MiB, complete at a tenth, a half and the end of backward.
StepWork three_buckets() {
    return {.gradients = {{MiB / 4, 0.1}, {MiB / 2, 0.5}, {MiB, 1.0}}, .batch = 20, .bucket_bytes = MiB};
}

TEST(StepPrediction, OfOneRankIsItsStep) {
    const StepPrediction p = predict_step(plain(), three_buckets(), tabled(1e-3), 1);
    EXPECT_NEAR(p.step, 0.030, rounding);
    EXPECT_NEAR(p.fixed, 0.010, rounding);
    EXPECT_NEAR(p.compute, 0.020, rounding);
    EXPECT_EQ(p.all_reduces + p.exposed + p.interference + p.noise + p.input, 0);
    EXPECT_NEAR(p.images_per_second, 20 / 0.030, 1e-6);
    EXPECT_EQ(p.limit, Limit::compute);
}

// A step of 30 ms: forward 10, backward 20. Buckets are ready at 12, 20 and 30 ms.
TEST(StepPrediction, SumsBeginWhenTheirBucketIsCompleteAndTheSumBeforeHasEnded) {
    // 1 ms per MiB: 12..13, 20..22, 30..34
    StepPrediction p = predict_step(plain(), three_buckets(), tabled(1e-3), 8);
    EXPECT_EQ(p.nodes, 2);
    EXPECT_NEAR(p.all_reduces, 0.007, rounding);
    EXPECT_NEAR(p.exposed, 0.004, rounding);
    EXPECT_NEAR(p.step, 0.034, rounding);
    ASSERT_EQ(p.buckets.size(), 3u);
    const double ready[] = {0.012, 0.020, 0.030}, ends[] = {0.013, 0.022, 0.034};
    for (size_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(p.buckets[k].ready, ready[k], rounding);
        EXPECT_NEAR(p.buckets[k].end, ends[k], rounding);
        EXPECT_NEAR(p.buckets[k].bytes, double(MiB << k), 1e-6);
    }
    // 6 ms per MiB: 12..18, 20..32, and the last waits: 32..56
    p = predict_step(plain(), three_buckets(), tabled(6e-3), 8);
    EXPECT_NEAR(p.all_reduces, 0.042, rounding);
    EXPECT_NEAR(p.exposed, 0.026, rounding);
    // 20 ms per MiB: each waits for the one before: 12..32..72..152
    p = predict_step(plain(), three_buckets(), tabled(20e-3), 8);
    EXPECT_NEAR(p.exposed, 0.122, rounding);
    EXPECT_NEAR(p.step, 0.152, rounding);
    EXPECT_EQ(p.limit, Limit::communication);
    EXPECT_NEAR(p.images_per_second, 160 / 0.152, 1e-6);
}

TEST(StepPrediction, OneBucketIsExposedWhole) {
    StepWork work = three_buckets();
    work.bucket_bytes = 4096 * MiB;
    const StepPrediction p = predict_step(plain(), work, tabled(1e-3), 8);
    EXPECT_NEAR(p.exposed, 0.007, rounding);
    EXPECT_NEAR(p.all_reduces, 0.007, rounding);
}

// Buckets are cut in f32, as in training, even if gradients are sent in fewer bytes.
TEST(StepPrediction, HalfTheBytesTakeHalfTheTime) {
    StepWork work = three_buckets();
    work.gradient_bytes = 2;
    work.gradients = {{MiB / 2, 0.1}, {MiB, 0.5}, {2 * MiB, 1.0}};
    work.bucket_bytes = 2 * MiB;
    const StepPrediction p = predict_step(plain(), work, tabled(6e-3), 8);
    ASSERT_EQ(p.buckets.size(), 3u);
    EXPECT_NEAR(p.buckets[0].bytes, double(MiB), 1e-6);
    EXPECT_NEAR(p.exposed, 0.026, rounding);
}

// A bucket of several gradients is complete with the last of them.
TEST(StepPrediction, BucketsAreReadyWithTheirLastGradient) {
    StepWork work = three_buckets();
    work.bucket_bytes = 3 * MiB;
    const StepPrediction p = predict_step(plain(), work, tabled(1e-3), 8);
    ASSERT_EQ(p.buckets.size(), 2u);
    EXPECT_NEAR(p.buckets[0].ready, 0.020, rounding);
    EXPECT_NEAR(p.buckets[0].end, 0.023, rounding);
    EXPECT_NEAR(p.exposed, 0.004, rounding);
}

TEST(StepPrediction, AFullNodeLosesItsPartOfH) {
    StepModel m = plain();
    m.host_loss = {0.14, 0, 0.5};
    // 4 of 8 ranks: 3/7 of the loss, which prolongs backward, too
    StepPrediction p = predict_step(m, three_buckets(), tabled(1e-3), 4);
    EXPECT_NEAR(p.compute, 0.020, rounding);
    EXPECT_NEAR(p.fixed, 0.010, rounding);
    EXPECT_NEAR(p.node_loss, 0.030 * 0.06, rounding);
    EXPECT_NEAR(p.buckets[0].ready, 0.012 * 1.06, rounding);
    EXPECT_NEAR(p.exposed, 0.004, rounding);
    EXPECT_NEAR(p.step, 0.030 * 1.06 + 0.004, rounding);
    // two ranks: a seventh
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 2).node_loss, 0.030 * 0.02, rounding);
    // more nodes do not add to the loss
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 8).node_loss, 0.030 * 0.06, rounding);
    // times measured on 4 ranks include their loss
    m.ranks_of_times = 4;
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 4).step, 0.034, rounding);
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 1).step, 0.030 / 1.06, rounding);
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 1).fixed, 0.010 / 1.06, rounding);
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 1).compute, 0.020 / 1.06, rounding);
    // so a larger h makes one rank faster, and the worst step has the smallest h
    EXPECT_NEAR(worst_step(m, three_buckets(), tabled(1e-3), 1).step, 0.030, rounding);
    EXPECT_NEAR(best_step(m, three_buckets(), tabled(1e-3), 1).step, 0.030 / (1 + 0.5 * 3 / 7), rounding);
}

TEST(StepPrediction, SumsSlowBackwardWhileTheyRun) {
    StepModel m = plain();
    m.interference = {0.5, 0, 1};
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 8).interference, 0.0035, rounding);
    // limited to the length of backward
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(6e-3), 8).interference, 0.5 * 0.020, rounding);
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 8).step, 0.034 + 0.0035, rounding);
}

TEST(StepPrediction, TheSlowestRankIsWaitedFor) {
    StepModel m = plain();
    m.spread = {0.02, 0.02, 0.02};
    const StepPrediction p = predict_step(m, three_buckets(), tabled(1e-3), 8);
    // Blom: the quantile at 7.625 / 8.25 is 1.43420
    EXPECT_NEAR(p.noise, 0.02 * 0.030 * 1.43420, 1e-8);
    EXPECT_NEAR(p.step, 0.034 + p.noise, rounding);
}

double normal_share_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(StepPrediction, TheLargestOfNormalNumbersIsBloms) {
    EXPECT_EQ(expected_largest(1), 0);
    // the normal distribution's share below it is (n - 3/8) / (n + 1/4)
    for (const int n : {2, 3, 8, 32, 1024, 100000})
        EXPECT_NEAR(normal_share_below(expected_largest(n)), (n - 0.375) / (n + 0.25), 1e-9) << n;
    // Means of the largest of n, from tables of order statistics (Harter 1961). Blom's formula is
    // made for many: it is 4.5 % too high for two.
    EXPECT_NEAR(expected_largest(2), 0.56419, 0.05 * 0.56419);
    const std::pair<int, double> means[] = {{5, 1.16296}, {10, 1.53875}, {20, 1.86748}, {50, 2.24907}, {100, 2.50759}};
    for (const auto& [n, mean] : means) EXPECT_NEAR(expected_largest(n), mean, 0.02 * mean) << n;
}

TEST(StepPrediction, ReadingBoundsAStep) {
    Cluster c = tabled(1e-3);
    c.images_per_second = 2000;  // 80 images of a node in 40 ms
    StepPrediction p = predict_step(plain(), three_buckets(), c, 8);
    EXPECT_NEAR(p.input, 0.040, rounding);
    EXPECT_NEAR(p.step, 0.040, rounding);
    EXPECT_EQ(p.limit, Limit::input);
    EXPECT_NEAR(p.images_per_second, 4000, 1e-6);
    // one rank of the node reads a quarter
    p = predict_step(plain(), three_buckets(), c, 1);
    EXPECT_NEAR(p.input, 0.010, rounding);
    EXPECT_NEAR(p.step, 0.030, rounding);
    EXPECT_EQ(p.limit, Limit::compute);
}

TEST(StepPrediction, TheLimitIsTheLargestTerm) {
    StepModel m = plain();
    StepWork work = three_buckets();
    EXPECT_EQ(predict_step(m, work, tabled(1e-3), 8).limit, Limit::compute);
    work.batch = 5;  // 10 ms fixed, 5 ms compute, 7 ms of sums, of which 4 are exposed
    EXPECT_EQ(predict_step(m, work, tabled(1e-3), 8).limit, Limit::fixed);
    // Ready at 6, 10, 15 ms; 2 ms per MiB: 6..8, 10..14, 15..23. With 5 ms of interference it
    // exceeds 10.
    EXPECT_EQ(predict_step(m, work, tabled(2e-3), 8).limit, Limit::fixed);
    m.interference = {0.5, 0.5, 0.5};
    const StepPrediction p = predict_step(m, work, tabled(2e-3), 8);
    EXPECT_NEAR(p.exposed, 0.008, rounding);
    EXPECT_NEAR(p.interference, 0.005, rounding);
    EXPECT_EQ(p.limit, Limit::communication);
    m.spread = {1, 1, 1};
    EXPECT_EQ(predict_step(m, work, tabled(2e-3), 8).limit, Limit::noise);
    EXPECT_STREQ(name_of(Limit::noise), "slowest rank");
    EXPECT_STREQ(name_of(Limit::input), "input");
    EXPECT_STREQ(name_of(Limit::communication), "communication");
    EXPECT_STREQ(name_of(Limit::fixed), "fixed time");
    EXPECT_STREQ(name_of(Limit::compute), "compute");
}

TEST(StepPrediction, AMeasuredBatchIsTakenAsItIs) {
    StepModel m = plain();
    m.alone.measured[20] = 0.040;
    StepPrediction p = predict_step(m, three_buckets(), tabled(1e-3), 1);
    EXPECT_NEAR(p.step, 0.040, rounding);
    EXPECT_NEAR(p.fixed, 0.010, rounding);
    m.alone.measured[20] = 0.008;  // less than the line's fixed time
    p = predict_step(m, three_buckets(), tabled(1e-3), 1);
    EXPECT_NEAR(p.fixed, 0.008, rounding);
    EXPECT_NEAR(p.compute, 0, rounding);
    StepWork other = three_buckets();
    other.batch = 21;
    EXPECT_NEAR(predict_step(m, other, tabled(1e-3), 1).step, 0.031, rounding);
}

TEST(StepPrediction, TheNetworksShareIsOfItsBandwidth) {
    Cluster c = tabled(1e-3);
    c.all_reduces.clear();
    StepModel m = plain();
    StepWork work = three_buckets();
    work.bucket_bytes = 4096 * MiB;
    m.network_share = 0.5;
    const StepPrediction slow = predict_step(m, work, c, 8);
    c.adapter_bandwidth /= 2;
    m.network_share = 1;
    EXPECT_NEAR(slow.all_reduces, all_reduce_time(c, 7 * double(MiB), 2, 4).seconds, rounding);
    // no effect on one node
    m.network_share = 0.1;
    EXPECT_NEAR(predict_step(m, work, c, 4).all_reduces, all_reduce_time(c, 7 * double(MiB), 1, 4).seconds, rounding);
}

TEST(StepPrediction, WorstAndBestTakeTheBoundsOfWhatIsNotMeasured) {
    StepModel m = plain();
    m.host_loss = {0.14, 0.07, 0.28};
    m.interference = {0.5, 0.25, 1};
    m.spread = {0.02, 0.02, 0.02};
    const double all_reduces = 0.007, exposed = 0.004, largest = expected_largest(8);
    const auto step = [&](double h, double kappa) {
        const double compute = 0.030 * (1 + h * 3 / 7);
        return compute + exposed + kappa * all_reduces + 0.02 * compute * largest;
    };
    EXPECT_NEAR(predict_step(m, three_buckets(), tabled(1e-3), 8).step, step(0.14, 0.5), rounding);
    EXPECT_NEAR(worst_step(m, three_buckets(), tabled(1e-3), 8).step, step(0.28, 1), rounding);
    EXPECT_NEAR(best_step(m, three_buckets(), tabled(1e-3), 8).step, step(0.07, 0.25), rounding);
    EXPECT_TRUE(m.spread.measured());
    EXPECT_FALSE(m.host_loss.measured());
}

TEST(StepPrediction, TheBestBucketIsThatOfTheShortestStep) {
    StepWork work;
    work.gradients = ready_gradients(build_model({.name = "resnet50", .h = 224, .w = 224, .c = 3, .classes = 1000}));
    work.batch = 64;
    StepModel m = plain();
    std::vector<size_t> found;
    for (const double bandwidth : {1e9, 10e9, 100e9})
        for (const int ranks : {1, 4, 8}) {
            Cluster c = tabled(1);
            c.all_reduces.clear();
            c.adapter_bandwidth = bandwidth;
            double shortest = INFINITY;
            for (const size_t mib : {1, 2, 4, 8, 16, 32, 64, 128, 256, 4096}) {
                work.bucket_bytes = mib * MiB;
                shortest = std::min(shortest, predict_step(m, work, c, ranks).step);
            }
            found.push_back(best_bucket_bytes(m, work, c, ranks));
            work.bucket_bytes = 0;
            const StepPrediction usual = predict_step(m, work, c, ranks);
            work.bucket_bytes = found.back();
            EXPECT_LE(predict_step(m, work, c, ranks).step, shortest + 1e-3 * (usual.exposed + usual.interference))
                << bandwidth << ", " << ranks;
        }
    EXPECT_EQ(found[0], 16 * MiB) << "one rank sums nothing";
    EXPECT_LT(found[2], 64 * MiB);
}

TEST(StepPrediction, UsualBucketsAreThoseOfTraining) {
    Cluster c;
    EXPECT_EQ(usual_bucket_bytes(c, 1), 16 * MiB);
    EXPECT_EQ(usual_bucket_bytes(c, 2), 16 * MiB);
    c.link = NodeLink::pcie;  // verbs still join nodes
    EXPECT_EQ(usual_bucket_bytes(c, 1), 4 * MiB);
    EXPECT_EQ(usual_bucket_bytes(c, 2), 16 * MiB);
    c.verbs = false;
    c.link = NodeLink::nvlink;
    EXPECT_EQ(usual_bucket_bytes(c, 1), 16 * MiB);
    EXPECT_EQ(usual_bucket_bytes(c, 2), 4 * MiB);
    // the default is the usual size
    StepWork work = three_buckets();
    work.bucket_bytes = 0;
    EXPECT_EQ(predict_step(plain(), work, tabled(1e-3), 8).buckets.size(), 1u);
}

}  // namespace
}  // namespace convoy::test
