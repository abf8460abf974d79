// Signals that job managers, shells and dying readers send to a training: each leaves a checkpoint
// of the last step. Also what a shell may have closed, ignored or limited before it starts a
// training.
#include <gtest/gtest.h>

#include "tests/runs/resume.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

class Signals : public ResumeTest {
protected:
    /// Returns a training of more steps than any test waits for.
    std::string endless(const std::string& run) const {
        return train(run, {{"epochs", "100000"}, {"eval-every", "0"}, {"metrics-every", "1"}});
    }
    /// Returns the same training as a command without mpirun; `before` precedes the program.
    std::string endless_alone(const std::string& run, const std::string& before = "") const {
        return with_limit(before + sibling("convoy") + " " + endless(run), 60);
    }
    std::string send(const std::string& signal, const std::string& run) const {
        return signal_to_the_newest_rank(run, signal);
    }
    /// Expects that the newest checkpoint is of the last step in the metrics.
    void expect_checkpoint(const std::string& run) {
        const std::vector<double> steps = column(dir_.path(run), "train/step");
        ASSERT_FALSE(steps.empty());
        ASSERT_FALSE(checkpoints(run).empty()) << run << " left no checkpoint";
        EXPECT_EQ(double(step_of_checkpoint(checkpoints(run).back())), steps.back()) << run;
    }
};

TEST_F(Signals, ThatSchedulersAndShellsSendLeaveACheckpoint) {
    for (const std::string signal : {"USR2", "HUP", "XCPU"}) {
        const Finished f = interrupted(endless_alone(signal), signal, 5, send(signal, signal));
        EXPECT_EQ(f.code, int(Exit::requeue)) << signal << ": " << f.out << f.err;
        EXPECT_NE(f.out.find("stopped by SIG" + signal + " after step"), std::string::npos) << f.out;
        expect_checkpoint(signal);
    }
    record_fault("SIGUSR2, SIGHUP or SIGXCPU", "exit 85 with a checkpoint of the last step", "as promised", 3);
}

TEST_F(Signals, ToOneOfTwoRanksStopBoth) {
    for (const std::string signal : {"USR2", "HUP"}) {
        const Finished f = interrupted(launch_command(2, endless(signal)), signal, 5, send(signal, signal));
        EXPECT_EQ(f.code, int(Exit::requeue)) << signal << ": " << f.out << f.err;
        expect_checkpoint(signal);
    }
}

// Steps take about half a second: the state before the current step is saved, and nothing waits for
// that step.
TEST_F(Signals, AHangupInALongStepIsNamed) {
    make_data(dir_.path("colour"), 600, 40, "12x12x3", 2);
    const Options slow = {{"model", "resnet18"},  {"data", dir_.path("colour")}, {"batch-size", "600"},
                          {"epochs", "1000"},     {"eval-every", "0"},           {"tuning", "quick"},
                          {"metrics-every", "1"}, {"checkpoint-every", "none"}};
    const Finished f = interrupted(with_limit(sibling("convoy") + " " + train("slow", slow), 60), "slow", 2,
                                   "sleep 0.1; " + send("HUP", "slow"));
    EXPECT_EQ(f.code, int(Exit::requeue)) << f.out << f.err;
    EXPECT_NE(f.out.find("stopped by SIGHUP"), std::string::npos) << f.out << f.err;
    expect_checkpoint("slow");
}

// Steps take about half a second: mpirun ends its ranks in the middle of one. The signal goes only
// to mpirun, as from a terminal, because its ranks are in separate process groups.
TEST_F(Signals, CtrlCUnderMpirunIsOneLineThatSaysHowToGoOn) {
    make_data(dir_.path("colour"), 600, 40, "12x12x3", 2);
    const Options slow = {{"model", "resnet18"}, {"data", dir_.path("colour")}, {"batch-size", "600"},
                          {"epochs", "1000"},    {"tuning", "quick"},           {"eval-every", "0"},
                          {"metrics-every", "1"}};
    const std::string mpirun = "mpirun --oversubscribe --bind-to none -np 2 " + sibling("convoy") + " ";
    const Finished f = interrupted(with_limit(mpirun + train("slow", slow), 60), "slow", 2,
                                   "sleep 0.1; pkill -INT -f '^mpirun .*" + dir_.path("slow") + "'");
    EXPECT_EQ(f.code, 1) << "of OpenMPI: " << f.out << f.err;
    EXPECT_EQ(f.err.find("MPI_ABORT"), std::string::npos) << f.err;
    EXPECT_EQ(f.err.find("convoy:"), std::string::npos) << f.err;
    EXPECT_EQ(count(f.out, "stopped by SIGTERM (as mpirun sends it after Ctrl-C)"), 1) << f.out << f.err;
    EXPECT_NE(f.out.find("train --resume auto --output " + dir_.path("slow")), std::string::npos) << f.out;
    EXPECT_FALSE(checkpoints("slow").empty());
}

TEST_F(Signals, ARunThatWasEndedBeforeItsFirstStepBlocksNoOther) {
    const std::string again = train("early", {{"max-steps", "2"}});
    ASSERT_EQ("", failure(convoy_alone(again)));
    fs::remove_all(dir_.path("early") + "/checkpoints");
    for (const char* model : {"/model.h5", "/model-best.h5"}) fs::remove(dir_.path("early") + model);
    EXPECT_EQ("", refusal(convoy_alone(again), Exit::usage, {"already holds a run"})) << "it has steps";
    const std::string lines = read_file(dir_.path("early") + "/metrics.jsonl");
    write_file(dir_.path("early") + "/metrics.jsonl", lines.substr(0, lines.find("{\"kind\":\"train\"")));
    const Finished f = convoy_alone(again);
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.err.find("replaces a run that was ended before its first step"), std::string::npos) << f.err;
    EXPECT_EQ(column(dir_.path("early"), "train/step").size(), 2u);
}

TEST_F(Signals, AHangupThatNohupIgnoresEndsNothing) {
    const std::string hang_up = send("HUP", "kept"), end = send("USR1", "kept");
    const std::string rows = "$(grep -c '\"train\"' " + dir_.path("kept") + "/metrics.jsonl)";
    const Finished f = interrupted(endless_alone("kept", "nohup "), "kept", 5,
                                   hang_up + "; before=" + rows + "; for i in $(seq 500); do [ " + rows +
                                       " -gt $((before + 40)) ] && break; sleep 0.02; done\n" + end);
    EXPECT_EQ(f.code, int(Exit::requeue)) << f.out << f.err;
    EXPECT_NE(f.out.find("stopped by SIGUSR1"), std::string::npos) << f.out;
    expect_checkpoint("kept");
}

// Some servers start their jobs with signals blocked, and processes inherit that.
TEST_F(Signals, ThatTheParentBlockedAreAnswered) {
    const std::string blocked =
        "${PYTHON:-/usr/bin/python3} -c 'import os, signal, sys; "
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); "
        "os.execv(sys.argv[1], sys.argv[1:])' ";
    const Finished f = interrupted(endless_alone("blocked", blocked), "blocked", 5, send("USR1", "blocked"));
    EXPECT_EQ(f.code, int(Exit::requeue)) << f.out << f.err;
    expect_checkpoint("blocked");
}

// `convoy train … | tee log`, then Ctrl-C: tee ends first.
TEST_F(Signals, AnInterruptAfterTheReaderOfTheOutputDiedLeavesACheckpoint) {
    const Finished f =
        interrupted(endless_alone("piped") + " | head -n 1; exit ${PIPESTATUS[0]}", "piped", 100, send("INT", "piped"));
    EXPECT_EQ(f.code, 130) << f.out << f.err;
    EXPECT_EQ(count(f.out, "\n"), 1) << f.out;
    expect_checkpoint("piped");
    record_fault("the reader of its output (`tee`) dies, then SIGINT", "trains on without; exit 130 with a checkpoint",
                 "as promised", 1);
}

TEST_F(Signals, CommandsThatOnlyPrintEndQuietlyWithTheirReader) {
    ASSERT_EQ("", failure(convoy_alone(train("run", {{"max-steps", "2"}}))));
    const std::string report = sibling("convoy") + " report --format json " + dir_.path("run");
    // The reader is gone before the report starts. The parent of the tests may ignore the signal.
    const std::string pipe = dir_.path("pipe");
    const Finished f = run("mkfifo " + pipe + "; { exec 3<" + pipe + "; } & exec 4>" + pipe +
                           "; wait; env --default-signal=PIPE " + report + " >&4; echo $? >" + dir_.path("code"));
    EXPECT_EQ(f.err, "");
    EXPECT_EQ(read_file(dir_.path("code")), std::to_string(128 + SIGPIPE) + "\n");
}

TEST_F(Signals, CommandsThatOnlyPrintSayThatTheyCannot) {
    for (const char* command : {"info", "report --help", "predict --help", "--version"})
        EXPECT_EQ(
            "", refusal(run(sibling("convoy") + " " + command + " >/dev/full"), Exit::io, {"stdout cannot be written"}))
            << command;
}

// Otherwise files and MPI's pipes would get these numbers and receive the output.
TEST_F(Signals, StreamsThatTheShellClosedAreNotTakenByFiles) {
    const std::string process = "$(pgrep -n -f '^[^ ]*convoy train .*" + dir_.path("closed") + "')";
    const Finished f =
        interrupted(endless_alone("closed") + " <&- >&- 2>&-", "closed", 5,
                    "for i in 0 1 2; do readlink /proc/" + process + "/fd/$i; done; " + send("USR1", "closed"));
    EXPECT_EQ(f.code, int(Exit::requeue)) << f.err;
    EXPECT_EQ(f.out, "/dev/null\n/dev/null\n/dev/null\n");
    expect_checkpoint("closed");
}

TEST_F(Signals, AFileBeyondTheShellsLimitIsCode5) {
    const std::string limit = "ulimit -f 8192; ";  // KiB; MPI itself makes files of 4 MiB
    const std::string convert =
        sibling("convoy") + " convert synthetic --images 20000 --test-images 10 --shards 1 --size 28x28x1 --to ";
    EXPECT_EQ("", refusal(run(limit + with_limit(convert + dir_.path("large"), 60)), Exit::io,
                          {dir_.path("large"), "ile too large"}));
    make_data(dir_.path("colour"), 40, 10, "12x12x3");
    const Options large = {{"model", "resnet18"},
                           {"data", dir_.path("colour")},
                           {"max-steps", "1"},
                           {"tuning", "quick"},
                           {"no-eval", "true"}};
    EXPECT_EQ("", refusal(run(limit + with_limit(sibling("convoy") + " " + train("large-model", large), 60)), Exit::io,
                          {"model.h5", "ile too large"}));
}

}  // namespace
}  // namespace convoy::test
