// Memory that threads share: parts wait for room, and a part of any size is taken in the end.
#include "base/byte_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace convoy::test {
namespace {

TEST(ByteBudget, PartsOfManyThreadsAreWithinIt) {
    constexpr size_t most = 100;
    ByteBudget budget(most);
    std::atomic<size_t> taken = 0, peak = 0;
    std::atomic<int> done = 0;
    {
        std::vector<std::jthread> threads;
        for (size_t t = 0; t < 8; ++t)
            threads.emplace_back([&, t] {
                for (size_t i = 0; i < 200; ++i) {
                    const size_t bytes = 1 + (37 * i + 13 * t) % 60;
                    ByteBudget::Part part(budget);
                    part.take(bytes);
                    const size_t now = taken += bytes;
                    for (size_t seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) continue;
                    std::this_thread::yield();
                    taken -= bytes;
                    ++done;
                }
            });
    }
    EXPECT_EQ(done, 8 * 200);
    EXPECT_LE(peak, most);
    EXPECT_GT(peak, 60U) << "several parts at a time";
}

TEST(ByteBudget, APartLargerThanAllWaitsForTheOthersOnly) {
    ByteBudget budget(100);
    std::optional<ByteBudget::Part> small(budget);
    small->take(1);
    std::atomic<bool> taken = false;
    std::jthread other([&] {
        ByteBudget::Part large(budget);
        large.take(1000);
        taken = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(taken);
    small.reset();
    other.join();
    EXPECT_TRUE(taken);
}

TEST(ByteBudget, ATakenPartMayBecomeLarger) {
    ByteBudget budget(100);
    ByteBudget::Part part(budget), other(budget);
    part.take(60);
    part.take(90);
    part.take(40);
    other.take(60);
}

}  // namespace
}  // namespace convoy::test
