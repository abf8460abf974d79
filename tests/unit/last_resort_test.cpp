// Actions after mpirun has passed on a SIGTERM. Whole runs with signals are in runs/signals.
#include "run/last_resort.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "run/signals.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

// mpirun sends a SIGCONT first. Short steps end before the SIGKILL arrives. Signal handlers belong
// to the process, so the test runs in another process.
TEST(LastResort, ASigcontAsksForACheckpointWhereStepsAreShort) {
    cpu::CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    Training training(backend, linear_graph(), samples, nullptr, plain_setup(10, 1));
    const auto in_another_process = [&] {
        stop_on_signals(training.requests);
        const LastResort last(test_comm(), training.trainer, training.requests,
                              {.save = [](Checkpoint&&) { return false; },
                               .pause = [](double) {},
                               .saved_step = [] { return int64_t(-1); },
                               .say = [](const std::string&, int64_t) {}});
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        const bool before = training.requests.checkpoint != 0;
        std::raise(SIGCONT);
        for (int i = 0; i < 500 && training.requests.checkpoint == 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ::_exit(!before && training.requests.checkpoint == 1 && training.requests.stop == 0 ? 0 : 1);
    };
    EXPECT_EXIT(in_another_process(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace convoy::test
