// The thread that writes the run folder: what waits for it, what it writes first, and how it
// reports failures.
#include "run/run_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "cli/train_steps.h"
#include "model/models.h"
#include "tests/ops/op_harness.h"
#include "tests/support/cluster.h"
#include "tests/support/file_calls.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

class RunWriting : public testing::Test {
protected:
    Checkpoint checkpoint(int64_t step) const {
        Checkpoint c;
        c.model = {{"linear", 1, 1, 10, 10},
                   {std::vector<float>(10, 0.5f), std::vector<float>(10, 0.5f)},
                   std::vector<std::string>(10, "a name")};
        c.identity = {{"seed", "1"}};
        c.step = step;
        c.weights.resize(state_.weights().count());
        c.optimizer.resize(state_.optimizer_block().count());
        return c;
    }
    RunWriter::Settings settings() const {
        return {.run_dir = dir_.path(), .keep = 9, .publish_every = 0.01, .lines_every = 0.01};
    }
    std::vector<int64_t> steps_of(const std::vector<RunWriter::Written>& all) const {
        std::vector<int64_t> steps;
        for (const RunWriter::Written& w : all) {
            EXPECT_EQ(w.failure, "");
            EXPECT_TRUE(fs::exists(w.path));
            steps.push_back(w.step);
        }
        return steps;
    }
    std::set<std::string> files() const {
        std::set<std::string> names;
        for (const auto& entry : fs::directory_iterator(dir_.path())) names.insert(entry.path().filename());
        return names;
    }
    int lines() const { return count(read_file(dir_.path("metrics.jsonl")), "\n"); }

    TempDir dir_;
    const std::unique_ptr<Backend> backend_ = make_test_backend("cpu");
    const Graph graph_ = build_model({"linear", 1, 1, 10, 10});
    const OptimizerSpec spec_;
    const State state_{graph_, *backend_, &spec_};
    Metrics metrics_{dir_.path()};
};

/// Returns when `holds` returns true, or after a minute.
bool eventually(const std::function<bool()>& holds) {
    for (int tries = 0; tries < 6000 && !holds(); ++tries) std::this_thread::sleep_for(10ms);
    return holds();
}

// A failure is reported once, and so is its end, however often it recurs.
TEST_F(RunWriting, EachFailureOfTheMetricsAndItsEndAreToldOnce) {
    RunWriter::Settings rarely = settings();
    rarely.publish_every = rarely.lines_every = 1000;  // only with checkpoints
    RunWriter writer(rarely, state_, metrics_);
    const std::string in_the_way = dir_.path("metrics.h5.partial");
    int64_t step = 0;
    const auto told = [&] {
        for (int i = 0; i < 2; ++i) {
            metrics_.add(TrainRow{.step = ++step});
            writer.write(checkpoint(step));
            writer.wait();
        }
        return writer.metrics_changes();
    };
    EXPECT_TRUE(told().empty());
    for (int round = 0; round < 2; ++round) {
        fs::create_directory(in_the_way);
        const std::vector<std::string> failures = told();
        ASSERT_EQ(failures.size(), 1u);
        EXPECT_NE(failures[0].find("metrics.h5"), std::string::npos) << failures[0];
        fs::remove(in_the_way);
        EXPECT_EQ(told(), std::vector<std::string>{""}) << "written again";
        EXPECT_TRUE(told().empty());
    }
}

TEST_F(RunWriting, WaitsOnlyForTheThirdCheckpoint) {
    RunWriter writer(settings(), state_, metrics_);
    std::future<void> third;
    {
        const SlowDisk slow;
        writer.write(checkpoint(1));
        slow.wait_until_used();
        writer.write(checkpoint(2));
        for (int64_t step = 1; step <= 10000; ++step) metrics_.add(TrainRow{.step = step});
        third = std::async(std::launch::async, [&] { writer.write(checkpoint(3)); });
        EXPECT_EQ(third.wait_for(200ms), std::future_status::timeout) << "three copies are held at once";
        EXPECT_TRUE(writer.written().empty());
    }
    third.get();
    writer.wait();
    EXPECT_EQ(steps_of(writer.written()), (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(RunWriting, PublishesMetricsBeforeTheCheckpoint) {
    RunWriter::Settings never = settings();
    never.publish_every = never.lines_every = 3600;
    RunWriter writer(never, state_, metrics_);
    metrics_.add(TrainRow{.step = 7});
    CallLog log;
    writer.write(checkpoint(7));
    writer.wait();
    std::vector<std::string> placed;
    for (const Call& c : log.calls)
        if (c.kind == Call::rename) placed.push_back(fs::path(c.to).filename());
    EXPECT_EQ(placed, (std::vector<std::string>{"metrics.h5", "step-000000000007.h5"}));
    EXPECT_EQ(column(dir_.path(), "train/step"), std::vector<double>{7});
    EXPECT_EQ(lines(), 1);
}

TEST_F(RunWriting, BringsRowsToBothFilesUnasked) {
    RunWriter writer(settings(), state_, metrics_);
    for (int64_t step = 1; step <= 3; ++step) {
        metrics_.add(TrainRow{.step = step});
        EXPECT_TRUE(eventually([&] { return lines() == step; }));
        EXPECT_TRUE(eventually([&] { return column(dir_.path(), "train/step").size() == size_t(step); }));
    }
}

TEST_F(RunWriting, DoesNotPublishBeforeItsTime) {
    RunWriter::Settings later = settings();
    later.publish_every = 3600;
    RunWriter writer(later, state_, metrics_);
    metrics_.add(TrainRow{.step = 1});
    EXPECT_TRUE(eventually([&] { return lines() == 1; }));
    EXPECT_TRUE(column(dir_.path(), "train/step").empty());
}

TEST_F(RunWriting, EndsWithWhatWasHandedOver) {
    {
        RunWriter writer(settings(), state_, metrics_);
        writer.write(checkpoint(1));
        writer.write(checkpoint(2));
    }
    EXPECT_TRUE(fs::exists(checkpoint_path(dir_.path(), 1)) && fs::exists(checkpoint_path(dir_.path(), 2)));
}

TEST_F(RunWriting, TellsOfACheckpointThatCannotBeWritten) {
    RunWriter writer(settings(), state_, metrics_);
    write_file(dir_.path("checkpoints"), "a file where the folder should be");
    writer.write(checkpoint(1));
    writer.wait();
    const std::vector<RunWriter::Written> written = writer.written();
    ASSERT_EQ(written.size(), 1u);
    EXPECT_NE(written[0].failure.find("/checkpoints: cannot be written: File exists"), std::string::npos)
        << written[0].failure;
    EXPECT_TRUE(writer.written().empty()) << "told once";
}

// The disk is full ten times for a while; a limit on file sizes simulates it.
TEST_F(RunWriting, ATemporarilyFullDiskLosesNoRow) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    RunWriter writer(settings(), state_, metrics_);
    std::vector<double> steps;
    for (int fill = 0; fill < 10; ++fill) {
        const rlimit small{rlim_t(100 * (fill + 1)), before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
        std::vector<std::string> changes;
        const auto told = [&] {
            for (const std::string& change : writer.metrics_changes()) changes.push_back(change);
            return !changes.empty();
        };
        for (int i = 0; i < 100; ++i) metrics_.add(TrainRow{.step = int64_t(steps.emplace_back(steps.size() + 1))});
        EXPECT_TRUE(eventually(told));
        for (int i = 0; i < 100; ++i) metrics_.add(TrainRow{.step = int64_t(steps.emplace_back(steps.size() + 1))});
        std::this_thread::sleep_for(30ms);
        ::setrlimit(RLIMIT_FSIZE, &before);
        EXPECT_EQ(changes.size(), 1u);
        EXPECT_NE(changes.at(0).find("cannot be written"), std::string::npos) << changes.at(0);
        changes.clear();
        EXPECT_TRUE(eventually(told));
        EXPECT_EQ(changes, std::vector<std::string>{""}) << "written again";
    }
    ::signal(SIGXFSZ, SIG_DFL);
    metrics_.publish();
    EXPECT_EQ(column(dir_.path(), "train/step"), steps);
    EXPECT_EQ(lines(), int(steps.size()));
}

TEST_F(RunWriting, ABestModelThatCannotBeWrittenIsNoLostCheckpoint) {
    fs::create_directories(dir_.path("model-best.h5/a folder where the file should be"));
    RunWriter writer(settings(), state_, metrics_);
    Checkpoint best = checkpoint(3);
    best.best_step = 3;
    best.best_accuracy = 0.5;
    writer.write(std::move(best));
    writer.wait();
    const std::vector<RunWriter::Written> written = writer.written();
    ASSERT_EQ(steps_of(written), std::vector<int64_t>{3});
    EXPECT_NE(written[0].model_failure.find("model-best.h5"), std::string::npos) << written[0].model_failure;
    EXPECT_EQ(writer.newest(), 3);
}

TEST_F(RunWriting, ATrialOnAFullDiskLeavesNothingBehind) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{30000, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(estimated_seconds(HeldFolder(dir_.path()), 1 << 20), Error);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_DFL);
    EXPECT_EQ(files(), (std::set<std::string>{"metrics.h5", "metrics.jsonl"}));
}

// A user who may rename in the folder could put another folder at the trial's name.
TEST_F(RunWriting, OnlyATrialsOwnFilesAreRemovedWithIt) {
    write_file(dir_.path("trial/trial.h5"), "a trial");
    write_file(dir_.path("trial/thesis.tex"), "not a trial");
    remove_trial(HeldFolder(dir_.path()), "trial");
    EXPECT_FALSE(fs::exists(dir_.path("trial/trial.h5")));
    EXPECT_EQ(read_file(dir_.path("trial/thesis.tex")), "not a trial");
    fs::remove(dir_.path("trial/thesis.tex"));
    remove_trial(HeldFolder(dir_.path()), "trial");
    EXPECT_FALSE(fs::exists(dir_.path("trial")));
}

TEST_F(RunWriting, ACheckpointThatTakesTooLongForATermIsKnownAtTheStart) {
    constexpr size_t huge = size_t(1) << 40;
    const double small = estimated_seconds(HeldFolder(dir_.path()), 1000),
                 large = estimated_seconds(HeldFolder(dir_.path()), huge);
    EXPECT_GT(small, 0);
    EXPECT_GT(large, 100) << "no disk writes a tebibyte in that time";
    EXPECT_EQ(files(), (std::set<std::string>{"metrics.h5", "metrics.jsonl"})) << "a trial was left behind";

    EXPECT_EQ(note_on_signals(dir_.path(), state_, 2), "") << "a few kilobytes, on a disk that a test can use";
    std::future<std::string> slow;
    {
        const SlowDisk disk;
        slow = std::async(std::launch::async, [&] { return note_on_signals(dir_.path(), state_, 2); });
        disk.wait_until_used();
        EXPECT_EQ(slow.wait_for(1600ms), std::future_status::timeout) << "a trial counts only when it is on disk";
    }
    EXPECT_NE(slow.get().find("stop with USR1"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
