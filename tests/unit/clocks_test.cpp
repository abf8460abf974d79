// Moments of checkpoints, and of a run's stop: by steps, by epochs, by a clock, before a deadline.
// A listener's own clock and a list of steps say when each is due, so the tests hold on a busy
// machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/text.h"
#include "cli/train_options.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

using Steps = std::vector<int64_t>;

/// A backend whose steps take at least `milliseconds` each.
class SlowBackend final : public cpu::CpuBackend {
public:
    explicit SlowBackend(int milliseconds) : cpu::CpuBackend({1, false}, test_comm()), milliseconds_(milliseconds) {}
    void update(const Update& u, Tape& tape) override {
        tape.push_back({{.name = "sleep"}, Resource::compute, [this] {
                            std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
                        }});
        cpu::CpuBackend::update(u, tape);
    }
    /// True: the trainer looks at steps only once per log interval.
    void set_asynchronous(bool asynchronous) { facts_.synchronous = !asynchronous; }

private:
    int milliseconds_;
};

/// One call of the listener, in order.
struct Call {
    bool checkpoint;  ///< otherwise a report of steps
    int64_t step;
    double step_seconds;  ///< of the last reported step
    Clock::time_point when;
};

class CallListener final : public QuietListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>& r) override {
        calls.push_back(
            {.checkpoint = false, .step = r.back().step, .step_seconds = r.back().step_seconds, .when = Clock::now()});
    }
    void on_checkpoint(Checkpoint&& c) override {
        calls.push_back({.checkpoint = true, .step = c.step, .step_seconds = 0, .when = Clock::now()});
    }
    Steps checkpoints() const {
        Steps steps;
        for (const Call& c : calls)
            if (c.checkpoint) steps.push_back(c.step);
        return steps;
    }
    std::vector<Call> calls;
};

double seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

/// Steps at which checkpoints were taken in 5 epochs of 3 steps, with nothing evaluated.
Steps checkpoints_of(const TrainSetup& setup) {
    SlowBackend backend(0);
    const Samples samples = draw_samples(30, 21);
    Training training(backend, linear_graph(), samples, nullptr, setup);
    CallListener seen;
    training.trainer.run(seen);
    return seen.checkpoints();
}

TEST(Clocks, CheckpointsByStepsAndEpochsAndAtTheEnd) {
    TrainSetup setup = plain_setup(10, 5);
    EXPECT_EQ(checkpoints_of(setup), (Steps{15}));
    setup.checkpoint_epochs = 2;
    EXPECT_EQ(checkpoints_of(setup), (Steps{6, 12, 15}));
    setup.checkpoint_steps = 4;
    EXPECT_EQ(checkpoints_of(setup), (Steps{4, 6, 8, 12, 15}));
    setup.checkpoint_epochs = 0;
    EXPECT_EQ(checkpoints_of(setup), (Steps{4, 8, 12, 15}));
}

TEST(Clocks, CheckpointsByTime) {
    constexpr double every = 0.1;
    SlowBackend backend(10);
    const Samples samples = draw_samples(30, 21);
    TrainSetup setup = plain_setup(10, 20);
    setup.checkpoint_seconds = every;
    Training training(backend, linear_graph(), samples, nullptr, setup);
    CallListener seen;
    training.trainer.run(seen);

    ASSERT_GE(seen.checkpoints().size(), 3u) << "60 steps of 10 ms";
    // A checkpoint that is due when a step is reported is taken after the next step. A checkpoint
    // resets the clock before it is reported, and after the report of its step.
    std::optional<Clock::time_point> taken, before_taken, step_reported;
    int reports_when_due = 0;
    for (const Call& c : seen.calls) {
        if (!c.checkpoint) {
            if (taken && seconds(*taken, c.when) >= every) ++reports_when_due;
            EXPECT_LE(reports_when_due, 2) << "no checkpoint, although one was due before step " << c.step;
            step_reported = c.when;
            continue;
        }
        if (before_taken && c.step < training.trainer.programs().total_steps()) {
            EXPECT_GE(seconds(*before_taken, c.when), every)
                << "a checkpoint at step " << c.step << ", although none was due";
        }
        before_taken = step_reported;
        taken = c.when;
        reports_when_due = 0;
    }
}

// A run stops at a point that all ranks know: one report after the one at which 5 s were left. The
// 5 s are for writing the checkpoint.
TEST(Clocks, StopsFiveSecondsBeforeTheDeadline) {
    constexpr double left_for_the_checkpoint = 5;
    for (const bool asynchronous : {false, true}) {
        SlowBackend backend(10);
        backend.set_asynchronous(asynchronous);
        const Samples samples = draw_samples(30, 21);
        TrainSetup setup = plain_setup(1, 1000);  // 30,000 steps
        setup.log_interval = asynchronous ? 4 : 1;
        setup.deadline = Clock::now() + std::chrono::milliseconds(5600);
        Training training(backend, linear_graph(), samples, nullptr, setup);
        CallListener seen;
        training.trainer.run(seen);
        const double left = seconds(Clock::now(), *setup.deadline);

        EXPECT_TRUE(training.trainer.stopped());
        EXPECT_EQ(seen.checkpoints(), Steps{training.trainer.progress().step}) << "it goes on from where it stopped";
        int late_reports = 0;
        double slowest_step = 0;
        for (const Call& c : seen.calls) {
            if (!c.checkpoint && seconds(c.when, *setup.deadline) <= left_for_the_checkpoint) ++late_reports;
            slowest_step = std::max(slowest_step, c.step_seconds);
        }
        EXPECT_LE(late_reports, 2) << left << " s were left at the end";
        const double steps_ahead = double(2 * setup.log_interval + 1);
        EXPECT_LE(left, left_for_the_checkpoint + steps_ahead * slowest_step) << "it stopped too early";
    }
}

TEST(Clocks, TextsOfCheckpointEvery) {
    const auto clock = [](const std::string& text) {
        return parse_train_options({"--data", "x", "--batch-size", "8", "--checkpoint-every", text}).options.setup;
    };
    EXPECT_EQ(clock("500").checkpoint_steps, 500);
    EXPECT_EQ(clock("2e").checkpoint_epochs, 2);
    const std::vector<std::pair<std::string, double>> times = {
        {"10m", 600}, {"1s", 1}, {"90s", 90}, {"1h30m", 5400}, {"0.5h", 1800}};
    for (const auto& [text, expected] : times) {
        EXPECT_DOUBLE_EQ(clock(text).checkpoint_seconds, expected) << text;
        EXPECT_EQ(clock(text).checkpoint_steps + clock(text).checkpoint_epochs, 0) << text;
    }
    for (const std::string text : {"500", "2e", "none"}) EXPECT_EQ(clock(text).checkpoint_seconds, 0) << text;
    EXPECT_EQ(clock("none").checkpoint_steps + clock("none").checkpoint_epochs, 0);
    EXPECT_EQ(clock("500").checkpoint_epochs, 0);
    EXPECT_EQ(clock("2e").checkpoint_steps, 0);
}

TEST(Clocks, TimesAreSaidInHoursFromAnHourOn) {
    for (const auto& [seconds, text] : {std::pair{0.4, "0m00s"},
                                        {59.6, "1m00s"},
                                        {3599.4, "59m59s"},
                                        {3599.6, "1h00m"},
                                        {3600.0, "1h00m"},
                                        {3659.0, "1h00m"},
                                        {3660.0, "1h01m"},
                                        {90000.0, "25h00m"}})
        EXPECT_EQ(duration_text(seconds), text) << seconds;
}

TEST(Clocks, TextsThatAreNoTimeAreRefused) {
    const std::vector<std::string> wrong = {"1h1h",
                                            "1s1h",
                                            "1m2h",
                                            "1e20s",
                                            "1e2s",
                                            "0x10s",
                                            "infs",
                                            "nans",
                                            "-1s",
                                            "+1s",
                                            " 1s",
                                            "1 s",
                                            "1s ",
                                            "1",
                                            "h",
                                            ".s",
                                            "1.2.3s",
                                            "1,5h",
                                            "1d",
                                            "8761h",
                                            "1h30",
                                            "8760h1s",
                                            "99999999999999999999h",
                                            "0s",
                                            "1H"};
    for (const std::string option : {"--time-limit", "--watchdog", "--checkpoint-every", "--tuning"})
        for (const std::string& text : wrong) {
            if (option == "--checkpoint-every" && text == "1") continue;          // number of steps
            if (option == "--tuning" && (text == "1" || text == "0s")) continue;  // one second; none
            const auto parse = [&] { parse_train_options({"--data", "x", "--batch-size", "8", option, text}); };
            EXPECT_EQ("", problem_of_error(Exit::usage, {option, " " + text + ":", "8760h"}, parse));
        }
    for (const auto& [text, seconds] : std::vector<std::pair<std::string, double>>{
             {"8760h", 365 * 86400.0}, {"1h1m1s", 3661}, {"1.5h0.5m", 5430}, {"90m", 5400}, {"00001s", 1}})
        EXPECT_DOUBLE_EQ(parse_duration(text).value_or(-1), seconds) << text;
}

}  // namespace
}  // namespace convoy::test
