// Requests that are made while steps continue, as on a GPU, and are seen late.
#include <gtest/gtest.h>

#include "tests/support/training.h"
#include "tests/unit/odd_backend.h"

namespace convoy::test {
namespace {

/// Compares each checkpoint with the rows reported before it.
class Compared final : public QuietListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>& r) override { reported = r.back().step; }
    void on_checkpoint(Checkpoint&& c) override { checkpoints.emplace_back(c.step, reported); }
    int64_t reported = 0;
    std::vector<std::pair<int64_t, int64_t>> checkpoints;  ///< step of the checkpoint, step of the last row
};

// Steps that were launched before the request was seen are in the checkpoint, and have rows.
TEST(TrainerRequests, ACheckpointHasTheRowsOfAllItsSteps) {
    const Samples samples = draw_samples(400, 21);
    for (const bool asynchronous : {false, true})
        for (const int64_t at : {7, 8, 9}) {
            OddBackend backend;
            backend.set_asynchronous(asynchronous);
            TrainSetup setup = plain_setup(10, 1);  // 40 steps
            setup.log_interval = 3;
            Training training(backend, linear_graph(), samples, nullptr, setup);
            backend.within = [&] {
                if (backend.launched == at) training.requests.checkpoint = 1;
            };
            Compared seen;
            training.trainer.run(seen);
            ASSERT_EQ(seen.checkpoints.size(), 2u) << "the one that was asked for, and that of the end";
            const auto [step, reported] = seen.checkpoints[0];
            EXPECT_EQ(step, reported) << asynchronous << " " << at;
            EXPECT_GT(step, at);
            EXPECT_LE(step, at + 1 + 2 * 3);
        }
}

}  // namespace
}  // namespace convoy::test
