// The pure functions: memory plan, gradient buckets, learning-rate schedules, sharding, Philox, and where a crop reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/augment.h"
#include "plan/buckets.h"
#include "plan/memory.h"
#include "plan/schedule.h"
#include "plan/split.h"
#include "support.h"

namespace convoy::test {
namespace {

/// A seeded stream of integers.
struct Draws {
    uint64_t seed;
    uint32_t at = 0;
    uint32_t below(uint32_t n) { return uniform_below(philox(seed, at++, 0, 0, 0).word[0], n); }
};

bool together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

TEST(MemoryPlan, NoTwoLiveBuffersOverlap) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        Draws draws{seed};
        const int events = 1 + int(draws.below(60));
        std::vector<Lifetime> buffers(draws.below(80));
        for (Lifetime& b : buffers) {
            const int first = int(draws.below(uint32_t(events)));
            b = {draws.below(4) ? draws.below(5000) : 0, first, first + int(draws.below(uint32_t(events - first)))};
        }
        const MemoryPlan plan = plan_memory(buffers);
        ASSERT_EQ(plan.offset.size(), buffers.size());
        size_t sum = 0, at_once = 0;
        for (size_t i = 0; i < buffers.size(); ++i) {
            sum += (buffers[i].bytes + 63) / 64 * 64;
            ASSERT_EQ(plan.offset[i] % 64, 0u);
            ASSERT_LE(plan.offset[i] + buffers[i].bytes, plan.bytes);
            for (size_t j = 0; j < i; ++j)
                ASSERT_TRUE(!together(buffers[i], buffers[j]) || plan.offset[i] + buffers[i].bytes <= plan.offset[j] ||
                            plan.offset[j] + buffers[j].bytes <= plan.offset[i])
                    << "seed " << seed << ": buffers " << i << " and " << j;
        }
        for (int event = 0; event < events; ++event) {
            size_t live = 0;
            for (const Lifetime& b : buffers) live += b.first <= event && event <= b.last ? b.bytes : 0;
            at_once = std::max(at_once, live);
        }
        EXPECT_LE(at_once, plan.bytes);
        EXPECT_LE(plan.bytes, sum);
    }
}

TEST(MemoryPlan, BuffersOneAfterTheOtherShare) {
    EXPECT_EQ(plan_memory({{1000, 0, 1}, {1000, 2, 3}, {64, 4, 9}}).bytes, 1024u);
    EXPECT_EQ(plan_memory({{1000, 0, 2}, {1000, 2, 3}}).bytes, 2048u) << "both live during event 2";
    EXPECT_EQ(plan_memory({}).bytes, 0u);
}

TEST(Buckets, CoverTheArenaInOrder) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        Draws draws{seed};
        std::vector<size_t> counts(1 + draws.below(50)), ends;
        size_t total = 0;
        for (size_t& c : counts) ends.push_back(total += c = 1 + draws.below(1000));
        const size_t target = 1 + draws.below(3000);
        const std::vector<Bucket> buckets = plan_buckets(counts, target);
        ASSERT_FALSE(buckets.empty());
        size_t at = 0;
        for (size_t i = 0; i < buckets.size(); ++i) {
            ASSERT_EQ(buckets[i].begin, at);
            ASSERT_TRUE(std::binary_search(ends.begin(), ends.end(), buckets[i].end)) << "a bucket ends where a gradient ends";
            at = buckets[i].end;
            const size_t least = i + 1 < buckets.size() || buckets.size() == 1 ? std::min(target, total) : target / 4;
            ASSERT_GE(buckets[i].end - buckets[i].begin, least) << "seed " << seed;
        }
        ASSERT_EQ(at, total);
    }
}

std::vector<size_t> sizes(const std::vector<Bucket>& buckets) {
    std::vector<size_t> all;
    for (const Bucket& b : buckets) all.push_back(b.end - b.begin);
    return all;
}

TEST(Buckets, ASmallTailJoinsItsNeighbour) {
    EXPECT_EQ(sizes(plan_buckets({60, 50, 100, 24}, 100)), (std::vector<size_t>{110, 124}));
    EXPECT_EQ(sizes(plan_buckets({60, 50, 100, 25}, 100)), (std::vector<size_t>{110, 100, 25}));
    EXPECT_EQ(sizes(plan_buckets({3}, 100)), (std::vector<size_t>{3}));
    EXPECT_EQ(sizes(plan_buckets({1, 2, 3}, 1)), (std::vector<size_t>{1, 2, 3}));
}

// 10 steps an epoch, 100 steps in all.
double rate(const Schedule& s, int64_t step) { return learning_rate(s, step, 10, 100); }

TEST(ScheduleTest, EachKindAtKnownPoints) {
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

TEST(ScheduleTest, WarmUpIsLinearAndMultiplies) {
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

TEST(ScheduleTest, UnknownNamesAreUsageErrors) {
    EXPECT_EQ(parse_schedule("cosine"), Schedule::cosine);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"cosin", "multistep"}, [] { parse_schedule("cosin"); }));
}

TEST(Split, SharesCoverAndDifferByAtMostOne) {
    for (const int64_t parts : {1, 2, 3, 7, 64})
        for (const int64_t n : {0, 1, 6, 7, 63, 1000}) {
            int64_t at = 0;
            for (int64_t i = 0; i < parts; ++i) {
                const Share s = share_of(n, parts, i);
                EXPECT_EQ(s.first, at);
                EXPECT_TRUE(s.count == n / parts || s.count == n / parts + 1);
                at += s.count;
            }
            EXPECT_EQ(at, n);
        }
    EXPECT_EQ(share_of(10, 4, 1).count, 3) << "the first shares are the larger ones";
    EXPECT_EQ(share_of(10, 4, 2).count, 2);
}

TEST(Split, EpochsHaveATailUnlessItIsDropped) {
    EXPECT_EQ(plan_epoch(50, 16, false).steps(), 4);
    EXPECT_EQ(plan_epoch(50, 16, false).tail, 2);
    EXPECT_EQ(plan_epoch(50, 16, true).steps(), 3);
    EXPECT_EQ(plan_epoch(48, 16, false).steps(), 3);
    EXPECT_EQ(plan_epoch(5, 16, false).steps(), 1);
    EXPECT_EQ(plan_epoch(5, 16, true).steps(), 0);
}

// A run that resumes and its peers draw the same order only while these values stay.
TEST(Split, ThePermutationIsPinned) {
    EXPECT_EQ(permutation(10, 1, 0), (std::vector<int32_t>{1, 9, 8, 3, 4, 0, 5, 7, 6, 2}));
    EXPECT_EQ(permutation(10, 7, 3), (std::vector<int32_t>{2, 4, 7, 3, 1, 8, 6, 5, 0, 9}));
    const std::vector<int32_t> order = permutation(50000, 1, 0);
    EXPECT_EQ(std::vector<int32_t>(order.begin(), order.begin() + 4), (std::vector<int32_t>{21888, 36011, 43947, 4112}));
}

TEST(Split, ThePermutationIsOneAndDiffersByEpochAndSeed) {
    std::vector<int32_t> order = permutation(1000, 1, 0);
    EXPECT_NE(order, permutation(1000, 1, 1));
    EXPECT_NE(order, permutation(1000, 2, 0));
    EXPECT_EQ(order, permutation(1000, 1, 0));
    int at_home = 0;
    for (int i = 0; i < 1000; ++i) at_home += order[size_t(i)] == i;
    EXPECT_LE(at_home, 8) << "one fixed point is expected";
    std::sort(order.begin(), order.end());
    std::vector<int32_t> all(1000);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
    EXPECT_EQ(permutation(1, 1, 0), std::vector<int32_t>{0});
}

std::vector<uint32_t> words(const Random4& r) { return {r.word, r.word + 4}; }

TEST(Philox, KnownAnswersOfRandom123) {
    EXPECT_EQ(words(philox(0, 0, 0, 0, 0)), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr uint32_t ones = 0xffffffff;
    EXPECT_EQ(words(philox(~uint64_t(0), ones, ones, ones, ones)), (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(words(philox(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344)),
              (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformDrawsStayInRange) {
    EXPECT_EQ(uniform01(0), 0);
    EXPECT_LT(uniform01(0xffffffff), 1);
    EXPECT_EQ(uniform_below(0xffffffff, 9), 8u);
    EXPECT_EQ(uniform_below(0, 9), 0u);
    float two[2];
    normal2(0, 0, two);  // the logarithm's smallest argument
    EXPECT_TRUE(std::isfinite(two[0]) && std::isfinite(two[1]));
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < 10000; ++i) {
        const Random4 r = philox(3, i, 0, 0, 0);
        normal2(r.word[0], r.word[1], two);
        sum += two[0] + two[1];
        squares += two[0] * two[0] + two[1] * two[1];
    }
    EXPECT_NEAR(sum / 20000, 0, 5 / std::sqrt(20000));
    EXPECT_NEAR(squares / 20000, 1, 5 * std::sqrt(2.0 / 20000));
}

TEST(AugmentTest, SourcesOfACrop) {
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

TEST(AugmentTest, DrawsCoverEveryShiftAlike) {
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
