// Memory that a training requests before it starts, compared with the bytes of its parts.
#include <gtest/gtest.h>

#include "cli/train_steps.h"
#include "run/metrics.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

TEST(ExpectedBytes, AreThoseOfCheckpointsModelsAndMetrics) {
    cpu::CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    const Training training(backend, linear_graph(), samples, nullptr, plain_setup(10, 4));
    const State& state = training.trainer.programs().state();
    const size_t model = state.weights().bytes(), checkpoint = model + state.optimizer_block().bytes();
    const auto planned = [&](const std::vector<std::string>& more) {
        std::vector<std::string> args = {"--data", "x", "--batch-size", "10"};
        args.insert(args.end(), more.begin(), more.end());
        return expected_bytes(parse_train_options(args).options, training.trainer.programs(), 1);
    };
    const size_t metrics = bytes_of_metrics(12, 5, 1);
    EXPECT_EQ(planned({"--checkpoint-every", "none"}), 3 * model + 2 * checkpoint + metrics);
    for (const char* clock : {"5", "2e", "10m"})
        for (const size_t keep : {1, 3})
            EXPECT_EQ(planned({"--checkpoint-every", clock, "--keep", std::to_string(keep)}),
                      3 * model + (keep + 2) * checkpoint + metrics)
                << clock << ": one is the best, one is being written";
    EXPECT_EQ(planned({"--keep", "0"}), planned({"--keep", "1"})) << "while the run trains";
    EXPECT_EQ(planned({"--checkpoint-every", "none", "--metrics-every", "6"}),
              3 * model + 2 * checkpoint + bytes_of_metrics(2, 5, 1));
}

}  // namespace
}  // namespace convoy::test
