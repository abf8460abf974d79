// Which checkpoint files stay, by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "model/models.h"
#include "support.h"
#include "test_comm.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

using Names = std::set<std::string>;

Names files_in(const std::string& folder) {
    Names names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
}

TEST(Checkpoints, TheNewestAndTheBestStay) {
    struct Written {
        int64_t step, best_step;
        Names left;
    };
    const std::vector<Written> all = {
        {10, 10, {"step-000000000010.h5"}},
        {20, 20, {"step-000000000010.h5", "step-000000000020.h5"}},
        {30, 20, {"step-000000000020.h5", "step-000000000030.h5"}},
        {40, 20, {"step-000000000020.h5", "step-000000000030.h5", "step-000000000040.h5"}},
        {50, 20, {"step-000000000020.h5", "step-000000000040.h5", "step-000000000050.h5"}},
        {60, 60, {"step-000000000050.h5", "step-000000000060.h5"}},
        {70, 60, {"step-000000000060.h5", "step-000000000070.h5"}},
    };
    const TempDir dir;
    CpuBackend backend({1, false}, test_comm());
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    const OptimizerSpec spec;
    const State state(graph, backend, &spec);
    CheckpointWriter writer(dir.path(), 2, state);
    for (const Written& w : all) {
        Checkpoint c;
        c.model = {{"linear", 1, 1, 10, 10}, std::vector<float>(10, 0.5f), std::vector<float>(10, 0.5f), {"a", "b"}};
        c.identity = {{"seed", "1"}};
        c.step = w.step;
        c.best_step = w.best_step;
        c.weights.resize(state.weights().count());
        c.optimizer.resize(state.optimizer_block().count());
        writer.write(std::move(c));
        writer.wait();
        const std::optional<CheckpointWriter::Outcome> outcome = writer.outcome();
        ASSERT_TRUE(outcome && outcome->failure.empty()) << w.step;
        EXPECT_EQ(files_in(dir.path("checkpoints")), w.left) << "after step " << w.step;
    }
}

}  // namespace
}  // namespace convoy::test
