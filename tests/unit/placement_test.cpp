// The default placement of images, on a node of one rank.
#include "supply/placement.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "comm/node_memory.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

// Shares of the memory that is left are far from a quarter, because other programs take some, too.
TEST(PlacementByItself, LeavesAQuarterOfTheMemoryFree) {
    cpu::CpuBackend backend({1, false}, test_comm());
    const size_t left = memory_budget(test_comm()).left_to_share();
    const auto placed = [&](const std::vector<size_t>& splits) {
        return place(test_comm(), backend, {}, splits).placement;
    };
    EXPECT_EQ(placed({left / 2}), Placement::replicate);
    EXPECT_EQ(placed({left / 4, left / 4}), Placement::replicate);
    EXPECT_EQ(placed({left / 8 * 7}), Placement::stream);
    EXPECT_EQ(placed({left / 2, left / 8 * 3}), Placement::stream) << "both splits count";
    EXPECT_EQ(placed({2 * left}), Placement::stream);
}

}  // namespace
}  // namespace convoy::test
