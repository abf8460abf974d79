// Threads that build plans for another thread: they overlap, their order, and errors. The works in
// these tests wait for one another, not for a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "backend/cuda/plan_builder.h"
#include "base/clock.h"

namespace convoy::test {
namespace {

using namespace cuda;

const auto nothing = [] {};

/// Returns false if the condition does not become true within ten seconds.
template <class Condition> bool wait_until(Condition condition) {
    const auto start = Clock::now();
    while (!condition())
        if (seconds_since(start) > 10)
            return false;
        else
            std::this_thread::yield();
    return true;
}

TEST(CudaPlanBuilder, AsManyWorksOverlapAsThereAreThreads) {
    PlanBuilder builder(4);
    std::atomic<int> begun = 0;
    std::atomic<bool> all = true;
    for (const char* key : {"a", "b", "c", "d"})
        builder.add(key, "family", [&](const std::stop_token&) {
            ++begun;
            if (!wait_until([&] { return begun == 4; })) all = false;
            return BuiltGraph{};
        });
    for (const char* key : {"a", "b", "c", "d"}) EXPECT_TRUE(builder.take(key, nothing)) << key;
    EXPECT_TRUE(all) << "they ran one after the other";
    EXPECT_FALSE(builder.take("a", nothing)) << "it was taken";
}

TEST(CudaPlanBuilder, WithoutThreadsNothingIsTaken) {
    PlanBuilder builder(0);
    builder.add("a", "family", [](const std::stop_token&) { return BuiltGraph{}; });
    EXPECT_FALSE(builder.take("a", nothing));
}

TEST(CudaPlanBuilder, WhatAWorkThrowsIsThrownWhereItIsTaken) {
    PlanBuilder builder(1);
    builder.add("a", "family", [](const std::stop_token&) -> BuiltGraph { fail(Exit::usage, "one line"); });
    builder.add("b", "family", [](const std::stop_token&) { return BuiltGraph{}; });
    try {
        builder.take("a", nothing);
        FAIL() << "nothing was thrown";
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
        EXPECT_STREQ(e.what(), "one line");
    }
    EXPECT_TRUE(builder.take("b", nothing)) << "the thread goes on";
}

TEST(CudaPlanBuilder, WhoWaitsIsCalledMeanwhile) {
    PlanBuilder builder(1);
    std::atomic<int> calls = 0;
    std::atomic<bool> called = false;
    builder.add("a", "family", [&](const std::stop_token&) {
        called = wait_until([&] { return calls >= 3; });
        return BuiltGraph{};
    });
    builder.take("a", [&] { ++calls; });
    EXPECT_TRUE(called);
}

TEST(CudaPlanBuilder, WhatIsAskedForComesBeforeWhatIsNot) {
    PlanBuilder builder(1);
    std::atomic<bool> begun = false, released = false;
    std::string order;  // filled by one thread, read after it ends
    builder.add("first", "family", [&](const std::stop_token&) {
        begun = true;
        wait_until([&] { return released.load(); });
        return BuiltGraph{};
    });
    for (const char* key : {"a", "b", "c"})
        builder.add(key, "family", [&order, key](const std::stop_token&) { return order += key, BuiltGraph{}; });
    ASSERT_TRUE(wait_until([&] { return begun.load(); }));
    builder.take("c", [&] { released = true; });
    builder.take("a", nothing);
    builder.take("b", nothing);
    EXPECT_EQ(order, "cab");
}

TEST(CudaPlanBuilder, WhatIsDroppedEndsEarlyAndTheKeyIsFree) {
    PlanBuilder builder(1);
    std::atomic<bool> begun = false, stopped = false, later = false;
    builder.add("a", "family", [&](const std::stop_token& stop) {
        begun = true;
        stopped = wait_until([&] { return stop.stop_requested(); });
        return BuiltGraph{};
    });
    builder.add("b", "family", [&](const std::stop_token&) { return later = true, BuiltGraph{}; });
    ASSERT_TRUE(wait_until([&] { return begun.load(); }));
    builder.drop();
    EXPECT_FALSE(builder.take("a", nothing));
    builder.add("a", "family", [](const std::stop_token& stop) {
        return stop.stop_requested() ? throw std::logic_error("it was dropped too") : BuiltGraph{};
    });
    EXPECT_TRUE(builder.take("a", nothing));
    EXPECT_TRUE(stopped);
    EXPECT_FALSE(later);
}

// In one family "b" is done and "a" under way. "c" was not begun, and "other" is of another family.
TEST(CudaPlanBuilder, AFamilyIsRepeatedOnceAndNoOther) {
    PlanBuilder builder(1);
    std::atomic<bool> done = false, begun = false, again = false, stopped = false;
    std::string order;  // filled by one thread, read after it ends
    builder.add("other", "another", [&](const std::stop_token&) { return order += "o", BuiltGraph{}; });
    builder.add("b", "family", [&](const std::stop_token&) {
        order += again ? "B" : "b";
        done = true;
        return BuiltGraph{};
    });
    builder.add("a", "family", [&](const std::stop_token& stop) {
        order += again ? "A" : "a";
        begun = true;
        if (!again) stopped = wait_until([&] { return stop.stop_requested(); });
        return BuiltGraph{.graph = nullptr, .attempts = {{again ? 1 : 0, {true, 0}}}};
    });
    builder.add("c", "family", [&](const std::stop_token&) { return order += again ? "C" : "c", BuiltGraph{}; });
    ASSERT_TRUE(wait_until([&] { return done && begun; }));
    again = true;
    builder.repeat("family");
    EXPECT_EQ(builder.take("a", nothing).value().attempts.begin()->first, 1) << "the result of before";
    for (const char* key : {"b", "c", "other"}) EXPECT_TRUE(builder.take(key, nothing)) << key;
    EXPECT_TRUE(stopped);
    std::string sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, "ABCabo") << order;
}

}  // namespace
}  // namespace convoy::test
