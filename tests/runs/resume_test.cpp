// A training that was interrupted by a signal, a time limit or kill -9, and resumes. On the same
// number of ranks it is bit for bit an undisturbed run; on another number it agrees within
// rounding. Damaged checkpoints are skipped; the message names what changed in a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "comm/launcher.h"
#include "run/metrics.h"
#include "tests/ops/op_harness.h"
#include "tests/runs/resume.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

using Resume = ResumeTest;

TEST_F(Resume, AfterASignalBitForBit) {
    ASSERT_EQ("", failure(launch(2, train("whole"))));
    int steps = 20;
    for (const char* signal : {"USR1", "TERM"}) {
        const Finished stopped =
            interrupted(launch_command(2, train(signal)), signal, steps, signal_to_the_newest_rank(signal, signal));
        EXPECT_EQ(stopped.code, int(Exit::requeue)) << stopped.out << stopped.err;
        EXPECT_NE(stopped.out.find("convoy train --resume auto --output "), std::string::npos) << stopped.out;
        EXPECT_LT(column(dir_.path(signal), "train/step").size(), 400u);
        const Finished again = launch(2, train(signal, resumed()));
        ASSERT_EQ("", failure(again));
        EXPECT_NE(again.out.find("resume    at step"), std::string::npos) << again.out;
        expect_same("whole", signal);
        steps += 130;  // so that the next one is in another epoch
    }
    record_fault("SIGUSR1 or SIGTERM to one of 2 ranks", "exit 85; resumed bit for bit",
                 "exit 85; losses, evaluations and model are the same bits", 2);
}

// Sends a signal to mpirun like a job script, at moments spread over start-up, training,
// evaluations and checkpoints.
TEST_F(Resume, AfterASignalThroughMpirunAtAnyMoment) {
    const Options busy = {{"checkpoint-every", "3"}, {"epochs", "2"}, {"eval-every", "1"}};
    ASSERT_EQ("", failure(launch(2, train("whole", busy))));
    const int signals = long_form() ? 40 : 4;
    int requeued = 0, before_there_was_anything = 0;
    for (int i = 0; i < signals; ++i) {
        const std::string run = "signal" + std::to_string(i);
        std::ostringstream script;
        script << "( " << launch_command(2, train(run, busy)) << " ) & sleep " << 0.3 + 1.6 * i / signals
               << "\npkill -USR1 -f '^(mpirun|prterun) .*" << dir_.path(run) << "'; wait $!";
        const Finished f = test::run(script.str());
        if (f.code == int(Exit::requeue))
            ++requeued;
        else if (!fs::exists(dir_.path(run) + "/metrics.h5"))
            ++before_there_was_anything;  // mpirun or MPI_Init itself got the signal
        else
            EXPECT_TRUE(f.code == 0 || (f.code == 128 + SIGUSR1 && f.out.find("\ndone: ") != std::string::npos))
                << f.code << ": " << f.out << f.err;  // it was done already, or mpirun got the signal after its ranks
        ASSERT_EQ("", failure(launch(2, train(run, resumed(busy)))));
        expect_same("whole", run);
    }
    std::printf("%d signals: %d checkpointed and asked to be requeued, %d came before the run began\n", signals,
                requeued, before_there_was_anything);
    EXPECT_GT(requeued, 0);
    record_fault("SIGUSR1 to `mpirun` at start-up, in training, evaluation and checkpoints",
                 "exit 85 once the run has begun; resumed bit for bit",
                 std::to_string(requeued) + " checkpointed, " + std::to_string(before_there_was_anything) +
                     " before the run began, " + std::to_string(signals - requeued - before_there_was_anything) +
                     " after its end; all the same bits",
                 signals);
}

// When mpirun gets a TERM, it sends its ranks a CONT, a second later a TERM and after another one a
// KILL. Here it waits three seconds each, for slow machines. OpenMPI 5's mpirun waits 0.25 s each,
// which cannot be changed: there the test sends the signals like 4's mpirun.
TEST_F(Resume, AfterATermToMpirunInALongStepBitForBit) {
    make_data(dir_.path("colour"), 1200, 40, "12x12x3", 2);
    const Options slow = {{"model", "resnet18"},
                          {"data", dir_.path("colour")},
                          {"batch-size", "600"},
                          {"epochs", "5"},
                          {"checkpoint-every", "none"}};
    ASSERT_EQ("", failure(launch(2, train("whole", slow), 120)));
    const std::string mpirun =
        "mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 3 -np 2 " + sibling("convoy") + " ";
    const std::string to_ranks = " -f '^[^ ]*convoy train .*" + dir_.path("term") + "'",
                      to_mpirun = "pkill -TERM -f '^mpirun .*" + dir_.path("term") + "'",
                      // Rank 0 then waits for rank 1, so the step cannot end before the TERM on any
                      // machine.
        stop_rank_1 = "; sleep 1; pkill -STOP -n" + to_ranks,
                      as_mpirun = "pkill -CONT" + to_ranks + stop_rank_1 + "; sleep 2; pkill -TERM" + to_ranks;
    const bool has_time = launcher_grace().to_kill >= 2;
    const Finished stopped = interrupted(with_limit(mpirun + train("term", slow), 120), "term", 3,
                                         "sleep 0.2; " + (has_time ? to_mpirun + stop_rank_1 : as_mpirun));
    EXPECT_NE(stopped.code, 0) << stopped.out;
    EXPECT_NE(stopped.code, 124) << "it hung: " << stopped.out << stopped.err;
    EXPECT_NE(stopped.out.find("stopped by SIGTERM"), std::string::npos) << stopped.out << stopped.err;
    ASSERT_FALSE(checkpoints("term").empty());
    EXPECT_GE(step_of_checkpoint(checkpoints("term").back()), 3) << "a step that had ended was lost";
    EXPECT_NE(
        test::run("h5dump -d /events/message " + dir_.path("term") + "/metrics.h5").out.find("SIGTERM, in the middle"),
        std::string::npos);
    ASSERT_EQ("", failure(launch(2, train("term", resumed(slow)), 120)));
    expect_same("whole", "term");
    record_fault("SIGTERM to `mpirun` in the middle of a long step",
                 "a checkpoint of the state before it; resumed bit for bit", "as promised; the same bits", 1);
}

TEST_F(Resume, ASecondInterruptEndsAtOnce) {
    const std::string run = "twice";
    const std::string all = "pkill -INT -f '^[^ ]*convoy train .*" + dir_.path(run) + "'";
    // Runs without mpirun, which would answer the first one itself.
    const Finished f = interrupted(with_limit(sibling("convoy") + " " + train(run, {{"epochs", "100000"}}), 60), run, 5,
                                   all + "; " + all);
    EXPECT_EQ(f.code, 130) << f.out << f.err;
    const Finished once = interrupted(with_limit(sibling("convoy") + " " + train("once", {{"epochs", "100000"}}), 60),
                                      "once", 5, "pkill -INT -f '^[^ ]*convoy train .*" + dir_.path("once") + "'");
    EXPECT_EQ(once.code, 130) << once.out << once.err;
    EXPECT_FALSE(checkpoints("once").empty()) << "one interrupt leaves a checkpoint";
    record_fault("SIGINT; a second one at once", "exit 130 with a checkpoint; ends at once", "as promised", 2);
}

TEST_F(Resume, WithBatchNormAndAdamBitForBit) {
    make_data(dir_.path("colour"), 200, 40, "12x12x3", 2);
    for (const std::string precision : {"f32", "bf16"}) {
        if (precision == "bf16" && !has_bf16()) continue;
        const Options model = {{"model", "resnet18"},         {"optimizer", "adam"},   {"lr", "0.0001"},
                               {"data", dir_.path("colour")}, {"batch-size", "32"},    {"epochs", "2"},
                               {"checkpoint-every", "9999"},  {"precision", precision}};
        const std::string whole = "whole-" + precision, parts = "parts-" + precision;
        ASSERT_EQ("", failure(launch(2, train(whole, model))));
        Options half = model;
        half["max-steps"] = "4";  // in the middle of an epoch: the ranks' running statistics must survive
        ASSERT_EQ("", failure(launch(2, train(parts, half))));
        ASSERT_EQ("", failure(launch(2, train(parts, resumed(model)))));
        // The first part ended with an extra evaluation, which averaged the running statistics.
        // Only results that depend on them differ.
        EXPECT_EQ(column(dir_.path(parts), "train/loss"), column(dir_.path(whole), "train/loss")) << precision;
        const auto a = tensors(dir_.path(parts) + "/model.h5"), b = tensors(dir_.path(whole) + "/model.h5");
        for (const auto& [name, values] : a)
            if (!name.ends_with(".mean") && !name.ends_with(".var")) {
                EXPECT_EQ(values, b.at(name)) << precision << " " << name;
            }
    }
}

TEST_F(Resume, AtTheEndOfAnEpochNothingIsEvaluatedTwice) {
    ASSERT_EQ("", failure(launch(2, train("whole"))));
    ASSERT_EQ("", failure(launch(2, train("half", {{"max-steps", "200"}}))));
    ASSERT_EQ("", failure(launch(2, train("half", resumed()))));
    expect_same("whole", "half");
}

TEST_F(Resume, AfterKillOfARankBitForBit) {
    ASSERT_EQ("", failure(launch(2, train("whole"))));
    const int kills = long_form() ? 50 : 3;
    uint64_t random = 2026;
    int resumed_in_the_middle = 0, slowest = 0;
    for (int i = 0; i < kills; ++i) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const int steps = int(random >> 33) % 380;  // 0: during its start
        const std::string run = "killed" + std::to_string(i), pattern = "'^[^ ]*convoy train .*" + dir_.path(run) + "'";
        const std::string victim =
            "pgrep -f " + pattern + " | sort -n | " + (random >> 60 & 1 ? "head" : "tail") + " -n 1";
        const Finished killed = interrupted(
            launch_command(2, train(run)), run, steps,
            "kill -KILL $(" + victim + "); start=$(date +%s%N); while pgrep -f " + pattern +
                " >/dev/null; do sleep 0.05; done; echo gone after $((($(date +%s%N) - start) / 1000000)) ms");
        EXPECT_NE(killed.code, 0) << killed.out;
        EXPECT_NE(killed.code, 124) << "the job went on without one of its ranks";
        const size_t gone = killed.out.find("gone after ");
        ASSERT_NE(gone, std::string::npos) << "a rank was left behind: " << killed.out;
        slowest = std::max(slowest, std::atoi(killed.out.c_str() + gone + 11));
        EXPECT_LT(slowest, 10000);
        const Finished again = launch(2, train(run, resumed()));
        ASSERT_EQ("", failure(again));
        resumed_in_the_middle += again.out.find("resume    at step") != std::string::npos;
        expect_same("whole", run);
        fs::remove_all(dir_.path(run));
    }
    std::printf("%d ranks killed, %d of the jobs went on from a checkpoint, all bit for bit\n", kills,
                resumed_in_the_middle);
    EXPECT_GT(resumed_in_the_middle, 0);
    record_fault("kill -9 of a random rank of 2 at a random moment",
                 "all processes gone in 10 s, exit code not 0; resumed bit for bit",
                 "gone after at most " + std::to_string(slowest) + " ms; " + std::to_string(resumed_in_the_middle) +
                     " went on from a checkpoint, " + std::to_string(kills - resumed_in_the_middle) +
                     " had none yet; all the same bits",
                 kills);
}

TEST_F(Resume, OnAnotherNumberOfRanks) {
    ASSERT_EQ("", failure(launch(2, train("whole", {{"max-steps", "250"}}))));
    ASSERT_EQ("", failure(launch(2, train("moved", {{"max-steps", "150"}}))));
    ASSERT_EQ("", failure(launch(3, train("moved", resumed({{"max-steps", "250"}})))));
    // The same samples in the same order, but sums in another order. 100 steps and an epoch's end
    // later, losses differ by 4e-6 for each of six seeds. From the 300th step on, where losses come
    // near zero, swapped maxima make the difference arbitrary.
    EXPECT_EQ(column(dir_.path("moved"), "train/step"), column(dir_.path("whole"), "train/step"));
    const double off = deviation(column(dir_.path("moved"), "train/loss"), column(dir_.path("whole"), "train/loss"));
    EXPECT_LE(off, 1e-4);
    char observed[96];
    std::snprintf(observed, sizeof observed, "the same steps, losses within %.0e", off);
    record_fault("interrupted on 2 ranks, resumed on 3",
                 "same order of samples, losses of the next 100 steps within 1e-4", observed, 1);
}

/// Returns seconds since 1970 of the first event of that kind in a run's metrics; -1 if there is
/// none.
double time_of(const std::string& run_dir, const std::string& kind) {
    const MetricsFile file = read_metrics(run_dir + "/metrics.h5");
    for (const EventRow& event : file.rows<EventRow>())
        if (event.kind == kind) return event.time;
    return -1;
}

// The limit counts from before the event "start", so a stop within the limit of that event is the
// looser bound. A run should stop 5 s before the limit, to write the checkpoint, and at least 1 s
// must be left.
TEST_F(Resume, TimeLimitEndsInTime) {
    constexpr double limit = 12, kept_for_the_checkpoint = 5;
    const double launched = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const Finished limited = launch(2, train("limited", {{"epochs", "5000"},
                                                         {"time-limit", "12s"},
                                                         {"eval-every", "0"},
                                                         {"checkpoint-every", "1s"},
                                                         {"keep", "100"}}));
    EXPECT_EQ(limited.code, int(Exit::requeue)) << limited.out << limited.err;
    const double stopped = time_of(dir_.path("limited"), "stop");
    EXPECT_LE(stopped, time_of(dir_.path("limited"), "start") + limit - 1);
    EXPECT_GE(stopped, launched + limit - kept_for_the_checkpoint - 2) << "it stopped much too early";
    const std::vector<double> steps = column(dir_.path("limited"), "train/step"),
                              seconds = column(dir_.path("limited"), "train/step_seconds");
    const double trained = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    const std::vector<std::string> paths = checkpoints("limited");
    ASSERT_FALSE(paths.empty());
    EXPECT_EQ(paths.back(), checkpoint_path(dir_.path("limited"), int64_t(steps.back())));
    EXPECT_GE(double(paths.size()), 1 + std::min(2.0, std::floor(trained / 2)))
        << "one a second in " << trained << " s";
    record_fault("`--time-limit 12s`", "exit 85 with a checkpoint, before the limit", "as promised", 1);
}

// Without the limit this training would continue for hours.
TEST_F(Resume, TrainingStopsBeforeSlurmsJobEnds) {
    make_data(dir_.path("grey"), 40, 10, "28x28x1");
    const std::string train = sibling("convoy") + " train --model mnist-linear --data " + dir_.path("grey") +
                              " --batch-size 20 --epochs 10000000 --eval-every 0 --output " + dir_.path("run");
    const Finished f = run("export SLURM_JOB_END_TIME=$(($(date +%s) + 9)); " + with_limit(train, 60));
    EXPECT_EQ(f.code, int(Exit::requeue)) << f.err;
    EXPECT_EQ(count(f.out, "\ntime      checkpoints and stops in 0m"), 1) << f.out;
    EXPECT_EQ(count(f.out, " or the time limit (SLURM_JOB_END_TIME) after step "), 1) << f.out;
}

}  // namespace
}  // namespace convoy::test
