// Plans that several threads build and one thread times, on the emulated device. Its builds take
// EMULATED_BUILD_SECONDS, and only the last of its three candidates runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <set>
#include <thread>

#include "backend/cuda/device.h"
#include "backend/cuda/plans.h"
#include "backend/cuda_queries.h"
#include "tests/cuda/graphs.h"
#include "tests/support/cluster.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

using namespace cuda;

class CudaPlanThreads : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (describe_device(0).name != "emulated GPU") GTEST_SKIP() << "this needs the emulated device";
    }
    void TearDown() override {
        for (const char* name : {"EMULATED_BUILD_SECONDS", "EMULATED_CUDNN"}) ::unsetenv(name);
        cudaSetDevice(0);
    }
    /// Returns convolutions with different channels. With `statistics` they are optional: a
    /// training can run without them.
    static std::vector<PlanSpec> specs(int count, bool statistics = false) {
        std::vector<PlanSpec> all;
        for (int i = 1; i <= count; ++i) {
            all.push_back({PlanSpec::conv, {1, 4, 4, 8}, {1, 4, 4, 8 * i}, 1, 1, 0, DType::f16});
            all.back().statistics = statistics;
        }
        return all;
    }
    struct Outcome {
        std::map<std::string, std::string> engines;  // by key
        int built = 0, calls = 0;                    // calls of Options::alive
        std::set<std::string> notes{};
        double seconds = 0;
        bool operator==(const Outcome& o) const { return engines == o.engines && built == o.built; }
    };
    static Outcome chosen(const std::vector<PlanSpec>& specs, int threads, const std::string& cache = "") {
        const Stream stream;
        const Cudnn cudnn(stream.get());
        Outcome outcome;
        const auto start = Clock::now();
        {
            Plans plans(cudnn, stream.get(),
                        {.path = cache, .alive = [&] { return ++outcome.calls, 0.0; }, .threads = threads});
            plans.expect(specs);
            for (const PlanSpec& s : specs) plans.time(s);
            plans.build(specs);
            outcome.built = plans.built();
            outcome.seconds = seconds_since(start);
            for (const auto& [key, plan] : plans.tuning()) outcome.engines[key] = plan.engine;
            outcome.notes = plans.notes();
            plans.save();
        }
        return outcome;
    }
};

TEST_F(CudaPlanThreads, BuildsOverlap) {
    ::setenv("EMULATED_BUILD_SECONDS", "0.25", 1);
    const Outcome outcome = chosen(specs(8), 8);
    EXPECT_EQ(outcome.engines.size(), 8u);
    constexpr double one_after_the_other = 8 * 3 * 0.25;
    EXPECT_LT(outcome.seconds, one_after_the_other / 2);
}

TEST_F(CudaPlanThreads, ChooseWhatOneThreadChooses) {
    std::vector<PlanSpec> all = specs(5);
    for (const PlanSpec& s : specs(5, true)) all.push_back(s);
    const Outcome alone = chosen(all, 0), together = chosen(all, 4);
    EXPECT_EQ(together, alone);
    EXPECT_EQ(alone.built, 2 * 10) << "of three candidates the first is never built";
    for (const auto& [key, engine] : together.engines) EXPECT_EQ(engine, "loops") << key;
}

// Two candidates take longer than the time limit for optional plans. The clock of the timing thread
// does not see that, because it takes plans that are already built.
TEST_F(CudaPlanThreads, PatienceCountsWhatThreadsTook) {
    const Stream stream;
    const Cudnn cudnn(stream.get());
    Plans plans(cudnn, stream.get(), {.path = "", .threads = 4});
    const std::vector<PlanSpec> needed = specs(2), fused = specs(4, true);
    plans.expect({needed[0], fused[0]});
    EXPECT_LT(plans.time(needed[0]), untimed);
    EXPECT_LT(plans.time(fused[0]), untimed);
    ::setenv("EMULATED_BUILD_SECONDS", "1.1", 1);
    plans.expect({needed[1], fused[1], fused[2], fused[3]});
    for (int i = 1; i < 4; ++i) EXPECT_EQ(plans.time(fused[i]), missing);
    EXPECT_LT(plans.time(needed[1]), untimed);
    EXPECT_EQ(plans.built(), 2 * 2 + 3 * 1 + 2);
}

TEST_F(CudaPlanThreads, OtherRanksHearOfAThreadThatWaits) {
    ::setenv("EMULATED_BUILD_SECONDS", "0.5", 1);
    const int alone = chosen(specs(1), 0).calls, waiting = chosen(specs(1), 1).calls;
    EXPECT_LT(alone, 10) << "once for each candidate";
    EXPECT_GT(waiting, alone + 10);
}

// The watchdog sees the activity of the thread that decides, because that thread does not build.
TEST_F(CudaPlanThreads, ABackendSelectsWhileOtherThreadsBuild) {
    ::setenv("EMULATED_BUILD_SECONDS", "0.6", 1);
    const TempDir dir;
    ::setenv("XDG_CACHE_HOME", dir.path().c_str(), 1);
    const Graph g = cuda_graph("linear", 1, 10, 10, Precision::bf16);
    const GradientFlow flow = gradient_flow(g);
    BackendOptions options;
    options.precision = Precision::bf16;
    const std::unique_ptr<Backend> gpu = make_backend("cuda", options, test_comm());
    double longest = 0;  // seconds in one operation
    {
        const std::jthread watcher([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                longest = std::max(longest, test_comm().activity().seconds());
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
        gpu->select({g, 4, true, flow});
    }
    EXPECT_GT(longest, 0);
    EXPECT_LT(longest, 0.5);
}

TEST_F(CudaPlanThreads, WantOfMemoryIsThrownByTheThreadThatAsks) {
    ::setenv("EMULATED_CUDNN", "out-of-memory", 1);
    EXPECT_THROW(chosen(specs(3), 2), std::bad_alloc);
    EXPECT_EQ(chosen(specs(3), 0).engines.size(), 3u);
}

TEST_F(CudaPlanThreads, NothingIsBuiltAheadOnceTimeIsOver) {
    const Stream stream;
    const Cudnn cudnn(stream.get());
    Plans plans(cudnn, stream.get(), {.path = "", .seconds = 0, .threads = 4});
    plans.expect(specs(20, true));
    EXPECT_TRUE(plans.find(specs(1)[0]));
    EXPECT_EQ(plans.built(), 2);
}

// The training begins, so its cores must not build plans that are not needed.
TEST_F(CudaPlanThreads, WhatWasExpectedInVainIsNotBuilt) {
    ::setenv("EMULATED_BUILD_SECONDS", "0.2", 1);
    const Stream stream;
    const Cudnn cudnn(stream.get());
    Plans plans(cudnn, stream.get(), {.path = "", .threads = 1});
    plans.expect(specs(6, true));
    plans.build(specs(1));
    const int before = plans.built();
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_LE(plans.built(), before + 1) << "one was under way";
}

TEST_F(CudaPlanThreads, BuildForTheDeviceOfTheirRank) {
    cudaSetDevice(1);
    EXPECT_EQ(chosen(specs(3), 2).built, 2 * 3) << "none was built again";
}

// A cuDNN that runs only plans built with a handle would be slow, but not wrong. Some of the first
// plans are built twice.
TEST_F(CudaPlanThreads, WhatDoesNotRunIsBuiltAgainWithAHandle) {
    ::setenv("EMULATED_CUDNN", "bound-to-handles", 1);
    TempDir dir;
    const Outcome cold = chosen(specs(3), 2, dir.path("cache")), warm = chosen(specs(3), 2, dir.path("cache"));
    EXPECT_EQ(cold.engines, chosen(specs(3), 0).engines);
    EXPECT_EQ(warm.engines, cold.engines);
    EXPECT_GE(cold.built, 2 * 3 + 2);
    EXPECT_LE(cold.built, (2 + 2) * 3);
    EXPECT_GE(warm.built, 1 * 3 + 1);
    EXPECT_LE(warm.built, (1 + 1) * 3);
}

// The threads build two candidates of a plan at a time, until the first plan did not run.
TEST_F(CudaPlanThreads, ThreadsChangeToHandlesOnceAPlanDoesNotRunWithoutOne) {
    ::setenv("EMULATED_BUILD_SECONDS", "0.05", 1);
    const Outcome apart = chosen(specs(12), 2);
    EXPECT_EQ(apart.notes, std::set<std::string>());
    ::setenv("EMULATED_CUDNN", "bound-to-handles", 1);
    const Outcome bound = chosen(specs(12), 2);
    EXPECT_EQ(bound.engines, apart.engines);
    EXPECT_EQ(apart.built, 2 * 12);
    EXPECT_LE(bound.built, 2 * 12 + 10) << "threads went on to build plans that are not used";
    EXPECT_GT(bound.calls, apart.calls / 2) << "the thread that times plans did not wait: it builds them";
    ASSERT_EQ(bound.notes.size(), 1u);
    EXPECT_TRUE(bound.notes.begin()->ends_with("with handles: conv f16")) << *bound.notes.begin();
}

// In a hurry, threads build the first engine that can be built. That one runs nowhere.
TEST_F(CudaPlanThreads, AnEngineThatRunsNowhereIsNoReasonForHandles) {
    const Stream stream;
    const Cudnn cudnn(stream.get());
    Plans plans(cudnn, stream.get(), {.path = "", .seconds = 0, .threads = 2});
    plans.build(specs(3));
    EXPECT_EQ(plans.notes(), std::set<std::string>());
    EXPECT_EQ(plans.tuning().begin()->second.engine, "loops");
}

TEST_F(CudaPlanThreads, ATrainingSaysWhichPlansNeedHandles) {
    const TempDir dir;
    const auto bench = [&](const std::string& cudnn) {
        return run("env XDG_CACHE_HOME=" + dir.path("cache-" + cudnn) + " EMULATED_CUDNN=" + cudnn + " " +
                   sibling("convoy") + " bench --device cuda --model mnist-conv --image-size 28x28x1 --precision f16 " +
                   "--batch-per-rank 2 --warmup 1 --steps 1 --profile-steps 0");
    };
    const Finished usual = bench("usual"), bound = bench("bound-to-handles");
    EXPECT_EQ("", failure(usual));
    EXPECT_EQ("", failure(bound));
    EXPECT_EQ(usual.err.find("handle"), std::string::npos) << usual.err;
    EXPECT_EQ(count(bound.err, "threads build these with handles: conv f16"), 1) << bound.err;
    EXPECT_EQ(count(bound.err, "\n"), count(usual.err, "\n") + 1) << bound.err;
}

}  // namespace
}  // namespace convoy::test
