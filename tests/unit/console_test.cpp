// Lines that a training prints about itself, written to a file instead of a terminal.
#include "cli/console.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <regex>
#include <thread>

#include "data/decode.h"
#include "data/shard.h"
#include "model/models.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

class ConsoleLines : public testing::Test {
protected:
    /// Returns what `action` prints.
    template <class Action> std::string printed(const Action& action) {
        std::FILE* to = std::fopen(dir_.path("out").c_str(), "w");
        {
            Terminal terminal(to, true);
            action(terminal);
        }
        std::fclose(to);
        return read_file(dir_.path("out"));
    }
    TempDir dir_;
};

// A step takes 20 ms and a million steps are left: at least 5 hours, however busy the machine is.
TEST_F(ConsoleLines, TheTimeLeftIsByTheStepsSinceTheStart) {
    const std::string text = printed([](Terminal& terminal) {
        const auto lines = make_plain_lines({.total_steps = 2'000'000, .steps_per_epoch = 1000}, terminal);
        lines->on_start(999'999);  // by an earlier run
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        StepRecord millionth;
        millionth.step = 1'000'000;
        lines->on_steps(1001, {millionth});
    });
    std::smatch left;
    ASSERT_TRUE(std::regex_search(text, left, std::regex(" ([0-9]+)h[0-9]+m left"))) << text;
    EXPECT_GE(std::stoi(left[1]), 5);
}

TEST_F(ConsoleLines, TheBatchOfARankIsSaidWhereTheyDiffer) {
    cpu::CpuBackend backend({1, false}, test_comm());
    write_data_set(make_synthetic({.images = 25, .test_images = 5, .height = 28, .width = 28, .channels = 1}),
                   dir_.path("data"), 1, false);
    const SplitReader reader(dir_.path("data"), "train");
    const DataSet data(test_comm(), backend, reader);
    const Graph graph = build_model({"mnist-linear", 28, 28, 1, 10});
    TrainSetup setup;
    setup.preprocessing = {{0.5f}, {0.25f}};
    setup.global_batch = 10;
    setup.epochs = 2;
    Requests nobody;
    Trainer trainer(test_comm(), backend, graph, data, nullptr, setup, nobody);
    trainer.programs().prepare();
    const auto batch = [&](int ranks) {
        const std::string text = printed([&](Terminal& terminal) {
            Console(trainer, terminal).print_setup({}, "data", data, nullptr, graph, setup, ranks);
        });
        const size_t at = text.find("10 global");
        return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
    };
    const std::string steps = "; 3 steps per epoch, the last of 5 samples; 6 steps in all";
    EXPECT_EQ(batch(1), "10 global, 10 per rank" + steps);
    EXPECT_EQ(batch(3), "10 global, 3 or 4 per rank" + steps);
    EXPECT_EQ(batch(4), "10 global, 2 or 3 per rank" + steps);
    EXPECT_EQ(batch(5), "10 global, 2 per rank" + steps);
}

}  // namespace
}  // namespace convoy::test
