// Logical ranks that a rank computes in each lane.
#include "train/logical_ranks.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "model/models.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

// Example: five logical ranks in two lanes are 0, 2, 4 and 1, 3. Sums are complete when every lane
// has added its last.
TEST(LogicalRanks, TheLastOfEachLaneCompletesTheSums) {
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    const OptimizerSpec spec;
    for (const auto& [threads, logical, lanes, last] :
         {std::tuple{2, 5, 2, std::vector<int>{3, 4}}, {2, 4, 2, {2, 3}}, {1, 3, 1, {2}}, {2, 1, 1, {0}}}) {
        cpu::CpuBackend backend({threads, false}, test_comm());
        const State state(graph, backend, &spec, false, logical);
        LogicalRanks ranks({logical, 1}, 0, backend, state);
        EXPECT_EQ(ranks.lanes(), lanes);
        std::vector<int> found;
        for (int i = 0; i < logical; ++i)
            if (ranks.part(i).last) found.push_back(i);
        EXPECT_EQ(found, last) << threads << " threads, " << logical;
    }
}

}  // namespace
}  // namespace convoy::test
