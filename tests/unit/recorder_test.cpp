// A training recorded without a terminal: calls of the observer, and the content of the folder.
#include "run/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "data/hdf5.h"
#include "tests/support/cluster.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

using namespace cpu;
namespace fs = std::filesystem;

/// Notes every call.
class Notes final : public RunObserver {
public:
    void note(const std::string& about, const std::string&) override { told.push_back(about); }
    void warning(const std::string& message) override { warnings.push_back(message); }
    void on_start(const std::vector<RankRow>& ranks, int64_t done) override {
        told.push_back("start of " + std::to_string(ranks.size()) + " after " + std::to_string(done));
    }
    void on_steps(int64_t, const std::vector<StepRecord>& r) override { last_step = r.back().step; }
    void on_epoch(const EpochSummary& e, const std::vector<RankEpochRow>&) override {
        told.push_back("epoch " + std::to_string(e.epoch));
        if (e.epoch == 1 && after_epoch) after_epoch();
    }
    void on_eval(int64_t epoch, const EvalResult&, bool) override {
        told.push_back("evaluation " + std::to_string(epoch));
    }

    std::vector<std::string> told, warnings;
    std::function<void()> after_epoch{};  // the first
    int64_t last_step = 0;
};

RunDescription description(const std::string& folder) {
    RunDescription run;
    run.place.folder = folder;
    run.model.model.name = "linear";
    run.attributes.command_line = "convoy train";
    run.metrics_every = 2;
    return run;
}

TEST(Recorder, TellsTheObserverAndFillsTheFolder) {
    const TempDir dir;
    CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    Training training(backend, linear_graph(), samples, &samples, plain_setup(10, 2));  // 6 steps
    Notes notes;
    Recorder recorder(test_comm(), backend, training.trainer.programs().state(), notes, description(dir.path("run")));
    EXPECT_FALSE(recorder.open_folder(training.trainer.programs().total_steps()));
    recorder.open_metrics(training.trainer);
    recorder.start(0);
    training.trainer.run(recorder);
    recorder.finish(training.trainer, "");

    EXPECT_EQ(notes.told,
              (std::vector<std::string>{"start of 1 after 0", "epoch 1", "evaluation 1", "epoch 2", "evaluation 2"}));
    EXPECT_TRUE(notes.warnings.empty());
    EXPECT_EQ(notes.last_step, 6);
    EXPECT_EQ(column(dir.path("run"), "train/step"), (std::vector<double>{2, 4, 6})) << "every second step is kept";
    const std::vector<double> accuracies = column(dir.path("run"), "eval/accuracy");
    ASSERT_EQ(accuracies.size(), 2u);
    const h5::Handle file = h5::open(dir.path("run/metrics.h5")), attributes(H5Gopen2(file, "run", H5P_DEFAULT));
    EXPECT_EQ(h5::int_attribute(attributes, "best_epoch", "x"), accuracies[1] > accuracies[0] ? 2 : 1);
    EXPECT_EQ(h5::double_attributes(attributes, "best_accuracy", "x").at(0), std::max(accuracies[0], accuracies[1]));
    EXPECT_TRUE(fs::exists(dir.path("run/model.h5")));
    EXPECT_TRUE(fs::exists(checkpoint_path(dir.path("run"), 6)));
}

TEST(Recorder, CountsAuditsAndRecordsDifferences) {
    const TempDir dir;
    CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    Training training(backend, linear_graph(), samples, nullptr, plain_setup(10, 2));
    Notes notes;
    Recorder recorder(test_comm(), backend, training.trainer.programs().state(), notes, description(dir.path("run")));
    recorder.open_folder(training.trainer.programs().total_steps());
    recorder.open_metrics(training.trainer);
    recorder.start(0);
    training.trainer.run(recorder);
    recorder.on_audit({.step = 2});
    recorder.on_audit({.step = 4, .difference = "rank 1 differs"});
    recorder.on_audit({.step = 6, .difference = "rank 2 differs", .ends = true});
    EXPECT_EQ(notes.warnings, std::vector<std::string>{"rank 1 differs"}) << "the error says the other one";
    recorder.finish(training.trainer, "");
    EXPECT_EQ(notes.told.back(), "audit");
    const h5::Handle file = h5::open(dir.path("run/metrics.h5")), attributes(H5Gopen2(file, "run", H5P_DEFAULT));
    EXPECT_EQ(h5::int_attribute(attributes, "audits", "x"), 3);
    EXPECT_EQ(h5::int_attribute(attributes, "audits_with_a_difference", "x"), 2);
    const std::string lines = read_file(dir.path("run/metrics.jsonl"));
    EXPECT_EQ(count(lines, "\"event\":\"audit\""), 2) << lines;
    EXPECT_EQ(count(lines, "rank 2 differs"), 1) << lines;
}

/// Returns the bytes of every path below a folder; folders and links have none.
std::map<std::string, std::string> content_of(const std::string& folder) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        all[entry.path().lexically_relative(folder)] = entry.is_regular_file() ? read_file(entry.path()) : "";
    return all;
}

// Another user, or the run's owner, may rename the run's folder or a folder in it.
TEST(Recorder, GoesOnInItsFoldersWhoeverExchangesTheirPaths) {
    const TempDir dir;
    CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    const std::string victim = dir.path("victim"), run = dir.path("run"), moved = dir.path("moved");
    for (const char* name : {"metrics.h5", "metrics.jsonl", "model.h5", "checkpoints/step-000000000001.h5",
                             "checkpoints/step-000000000002.h5", "step-000000000001.h5", "step-000000000002.h5"})
        write_file(victim + "/" + name, "another run's");
    const std::map<std::string, std::string> before = content_of(victim);
    const auto exchange = [&](const std::string& path, bool for_a_link) {
        fs::rename(path, moved);
        if (for_a_link) fs::create_directory_symlink(victim, path);
    };
    const std::pair<std::string, bool> cases[] = {{run, true}, {run, false}, {run + "/checkpoints", true}};
    for (const auto& [path, for_a_link] : cases) {
        Training training(backend, linear_graph(), samples, &samples, plain_setup(10, 6));  // 18 steps
        Notes notes;
        notes.after_epoch = [&, &path = path, for_a_link = for_a_link] { exchange(path, for_a_link); };
        RunDescription description_of_run = description(run);
        description_of_run.publish_every = 0.01;
        fs::create_directories(run + "/checkpoints");
        Recorder recorder(test_comm(), backend, training.trainer.programs().state(), notes, description_of_run);
        recorder.open_folder(training.trainer.programs().total_steps());
        recorder.open_metrics(training.trainer);
        recorder.start(0);
        training.trainer.run(recorder);
        recorder.finish(training.trainer, "");
        const std::string folder = path == run ? moved : run,
                          checkpoints = path == run ? moved + "/checkpoints" : moved;
        EXPECT_EQ(content_of(victim), before) << path;
        EXPECT_EQ(column(folder, "train/step").size(), 9u) << "every second step of 18";
        EXPECT_TRUE(fs::exists(folder + "/model.h5") && fs::exists(folder + "/model-best.h5"));
        EXPECT_TRUE(fs::exists(checkpoints + "/" + checkpoint_name(18)));
        ASSERT_EQ(notes.warnings.size(), 1u) << "once";
        EXPECT_EQ(notes.warnings[0].find(path + ": was moved or exchanged"), 0u) << notes.warnings[0];
        EXPECT_NE(notes.warnings[0].find(moved), std::string::npos) << "where it is now: " << notes.warnings[0];
        if (fs::is_symlink(path)) fs::remove(path);
        for (const std::string& gone : {run, moved}) fs::remove_all(gone);
    }
}

// If strict_io is set, this is Exit::io; Faults.* test that with a full disk.
TEST(Recorder, WhatCannotBeWrittenIsAWarning) {
    const TempDir dir;
    CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    for (const bool strict : {false, true}) {
        Training training(backend, linear_graph(), samples, nullptr, plain_setup(10, 1));
        Notes notes;
        const std::string folder = dir.path(strict ? "strict" : "run");
        RunDescription run = description(folder);
        run.strict_io = strict;
        Recorder recorder(test_comm(), backend, training.trainer.programs().state(), notes, run);
        recorder.open_folder(training.trainer.programs().total_steps());
        recorder.open_metrics(training.trainer);
        recorder.start(0);
        fs::remove_all(folder + "/checkpoints");
        write_file(folder + "/checkpoints", "a file where the folder has to be");
        training.trainer.run(recorder);
        if (strict) {
            EXPECT_EQ("", problem_of_error(Exit::io, {"checkpoints"}, [&] { recorder.finish(training.trainer, ""); }));
        } else {
            recorder.finish(training.trainer, "");
            ASSERT_EQ(notes.warnings.size(), 1u);
            EXPECT_NE(notes.warnings[0].find("no checkpoint"), std::string::npos) << notes.warnings[0];
        }
    }
}

// This holds for every value of --metrics-every.
TEST(Recorder, SkippedStepsAndTheLastOneHaveRows) {
    const TempDir dir;
    CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(30, 21);
    Training training(backend, linear_graph(), samples, nullptr, plain_setup(10, 3));  // 9 steps
    Notes notes;
    RunDescription run = description(dir.path("run"));
    run.metrics_every = 4;
    Recorder recorder(test_comm(), backend, training.trainer.programs().state(), notes, run);
    recorder.open_folder(training.trainer.programs().total_steps());
    recorder.open_metrics(training.trainer);
    recorder.start(0);
    std::vector<StepRecord> records(9);
    for (size_t i = 0; i < records.size(); ++i) records[i].step = int64_t(i) + 1;
    records[5].skipped = true;
    recorder.on_steps(1, records);
    recorder.record_failure(9, "the end of the test");
    EXPECT_EQ(column(dir.path("run"), "train/step"), (std::vector<double>{4, 6, 8, 9}));
    ASSERT_EQ(notes.warnings.size(), 1u);
    EXPECT_NE(notes.warnings[0].find("step 6 is not finite"), std::string::npos) << notes.warnings[0];
}

/// Counts its samples.
class SampledBackend final : public CpuBackend {
public:
    SampledBackend() : CpuBackend({1, false}, test_comm()) {}
    SystemSample sample() override {
        ++samples;
        return CpuBackend::sample();
    }
    std::atomic<int> samples = 0;
};

// An interrupted epoch has no end at which its rows would be gathered.
TEST(Recorder, ACheckpointHasTheRowsOfTheSystem) {
    const TempDir dir;
    SampledBackend backend;
    const Samples samples = draw_samples(30, 21);
    Training training(backend, linear_graph(), samples, nullptr, plain_setup(10, 1));
    Notes notes;
    RunDescription run = description(dir.path("run"));
    run.pace.every = 0.001;
    Recorder recorder(test_comm(), backend, training.trainer.programs().state(), notes, run);
    recorder.open_folder(training.trainer.programs().total_steps());
    recorder.open_metrics(training.trainer);
    recorder.start(0);
    while (backend.samples < 4) std::this_thread::yield();  // the first is dropped, and two are rows by now
    training.requests.stop = 1;
    training.trainer.run(recorder);
    recorder.finish(training.trainer, "SIGUSR1");
    EXPECT_GE(column(dir.path("run"), "system/time").size(), 2u);
}

TEST(Recorder, SaysWhichRanksComputeWhichLogicalRanks) {
    const auto row = [](int64_t rank, const char* host, int64_t first, int64_t count) {
        return RankRow{.rank = rank, .host = host, .device = "", .first_logical_rank = first, .logical_ranks = count};
    };
    EXPECT_EQ(batch_split_text({row(0, "a", 0, 3)}), "logical ranks 0-2 on rank 0 (a)");
    EXPECT_EQ(batch_split_text({row(0, "a", 0, 2), row(1, "a", 2, 2), row(2, "b", 4, 1), row(3, "a", 5, 1)}),
              "logical ranks 0-3 on ranks 0-1 (a), 4 on rank 2 (b), 5 on rank 3 (a)");
}

}  // namespace
}  // namespace convoy::test
