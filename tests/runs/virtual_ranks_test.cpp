// --virtual-ranks: a training has the same bits on any number of ranks and threads, also if it is
// interrupted and resumes on others.
#include <nlohmann/json.hpp>

#include "tests/ops/op_harness.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

class VirtualRanks : public ResumeTest {
protected:
    VirtualRanks() { make_data(dir_.path("colours"), 130, 40, "12x12x3", 2); }

    /// Returns options for steps of 12, 12, … and 10 samples, twice; five logical ranks have 3, 3,
    /// 2, 2 and 2 of them.
    Options as_five(Options changes = {}) const {
        changes.insert({{"virtual-ranks", "5"},
                        {"data", dir_.path("colours")},
                        {"model", "resnet18"},
                        {"stem", "cifar"},
                        {"batch-size", "12"},
                        {"epochs", "0.5"},
                        {"checkpoint-every", "2"},
                        {"crop-pad", "1"}});
        return changes;
    }
    void run(int ranks, const std::string& name, const Options& options) {
        ASSERT_EQ("", failure(launch(ranks, train(name, options), 120))) << name;
    }
    /// Returns the messages of a run's events of one kind.
    std::vector<std::string> events(const std::string& run, const std::string& kind) {
        std::vector<std::string> messages;
        std::istringstream lines(read_file(dir_.path(run) + "/metrics.jsonl"));
        for (std::string line; std::getline(lines, line);)
            if (const auto row = nlohmann::json::parse(line); row["kind"] == "event" && row["event"] == kind)
                messages.push_back(row["message"]);
        return messages;
    }
    /// Returns the arguments of `ranks` ranks of a training in which oneDNN may use only SSE4.1's
    /// instructions.
    std::string on_less(int ranks, const std::string& command) const {
        return "-np " + std::to_string(ranks) + " -x ONEDNN_MAX_CPU_ISA=SSE41 " + sibling("convoy") + " " + command;
    }
    /// Expects equal model files and curves of two runs.
    void expect_same_runs(const std::string& a, const std::string& b) {
        ASSERT_GT(column(dir_.path(a), "train/loss").size(), 4u);
        expect_same(a, b);
        EXPECT_EQ(column(dir_.path(a), "train/top5_accuracy"), column(dir_.path(b), "train/top5_accuracy"));
    }
};

TEST_F(VirtualRanks, AreTheSameBitsOnAnyNumberOfRanksAndThreads) {
    run(1, "one", as_five({{"threads", "1"}}));
    run(1, "threads", as_five({{"threads", "3"}}));
    run(2, "two", as_five({{"threads", "2"}}));
    run(4, "four", as_five({{"threads", "1"}}));
    run(5, "five", as_five({{"threads", "1"}}));
    for (const char* other : {"threads", "two", "four", "five"}) expect_same_runs("one", other);
    using Numbers = std::vector<double>;
    EXPECT_EQ(column(dir_.path("four"), "ranks/first_logical_rank"), (Numbers{0, 2, 3, 4}));
    EXPECT_EQ(column(dir_.path("four"), "ranks/logical_ranks"), (Numbers{2, 1, 1, 1}));
    const Finished report = launch(1, "report " + dir_.path("two"));
    for (const char* dealt : {"0 as 0-2 ", "1 as 3-4 "}) EXPECT_EQ(count(report.out, dealt), 1) << report.out;
}

TEST_F(VirtualRanks, AreTheSameBitsInBf16) {
    if (!has_bf16()) GTEST_SKIP() << "CPUs need AVX-512 for bf16";
    run(1, "one", as_five({{"precision", "bf16"}, {"threads", "2"}}));
    run(3, "three", as_five({{"precision", "bf16"}, {"threads", "1"}}));
    expect_same_runs("one", "three");
}

// The host assembles batches: a rank's part is that of its logical ranks.
TEST_F(VirtualRanks, AreTheSameBitsWhereverTheImagesAre) {
    const Options mixed = {{"mixup", "0.2"}, {"threads", "1"}};
    run(1, "replica", as_five(mixed));
    Options partition = as_five(mixed);
    partition["data-placement"] = "partition";
    run(2, "partition", partition);
    expect_same_runs("replica", "partition");
}

// Look-ahead, Muon and frozen filters; 4 logical ranks on 3.
TEST_F(VirtualRanks, TrainAirbenchTheSameOnOneAndThreeRanks) {
    const Options airbench = {{"data", "input/cifar10-sample"},
                              {"model", "airbench94"},
                              {"optimizer", "muon"},
                              {"look-ahead", "2"},
                              {"batch-size", "16"},
                              {"virtual-ranks", "4"},
                              {"max-steps", "5"},
                              {"eval-images", "30"},
                              {"tta", "mirror"},
                              {"threads", "1"}};
    run(1, "one", airbench);
    Options threads = airbench;
    threads["threads"] = "2";
    run(1, "threads", threads);
    run(3, "three", airbench);
    expect_same_runs("one", "threads");
    expect_same_runs("one", "three");
}

TEST_F(VirtualRanks, GoOnWithAnotherNumberOfRanksBitForBit) {
    const Options steps = {{"epochs", "2"}, {"virtual-ranks", "6"}, {"threads", "1"}};
    run(2, "whole", as_five(steps));
    int done = 0;
    for (const int ranks : {1, 4, 2}) {
        interrupted(launch_command(ranks, train("chain", as_five(resumed(steps))), 120), "chain", done += 4,
                    signal_to_the_newest_rank("chain", "KILL"));
        ASSERT_FALSE(fs::exists(dir_.path("chain") + "/model.h5")) << "nothing was interrupted";
    }
    run(3, "chain", as_five(resumed(steps)));
    expect_same_runs("whole", "chain");
    EXPECT_EQ(events("chain", "warning"), (std::vector<std::string>{}));
    const std::string host =
        events("chain", "dealing").at(0).substr(std::string("logical ranks 0-5 on rank 0 ").size());
    std::vector<std::string> dealt;
    for (const char* ranks : {"rank 0 ", "ranks 0-3 ", "ranks 0-1 ", "ranks 0-2 "})
        dealt.push_back("logical ranks 0-5 on " + (ranks + host));
    EXPECT_EQ(events("chain", "dealing"), dealt);
    if (test::run("/usr/bin/python3 -c 'import h5py, matplotlib, numpy'").code != 0) return;
    const Finished figure = launch(1, "plot --difference " + dir_.path("whole") + " " + dir_.path("chain"));
    EXPECT_NE(figure.out.find("largest difference of train/loss: 0 nat over "), std::string::npos) << figure.err;
}

// The first step is always repeated, because the size of the gradients is not known. An update that
// would then happen twice would show in the running statistics.
TEST_F(VirtualRanks, AreNearTheRanksThatTheyStandFor) {
    Options ranks = as_five({{"virtual-ranks", "0"}, {"max-steps", "1"}, {"threads", "1"}, {"weight-decay", "0"}});
    run(4, "ranks", ranks);
    ranks["virtual-ranks"] = "4";
    run(1, "virtual", ranks);
    const auto a = tensors(dir_.path("ranks") + "/model.h5"), b = tensors(dir_.path("virtual") + "/model.h5");
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, values] : a) {
        double most = 0, size = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            most = std::max(most, std::abs(double(values[i]) - double(b.at(name)[i])));
            size = std::max(size, std::abs(double(values[i])));
        }
        EXPECT_LE(most, 1e-5 * size) << name;
    }
    Options curve = {{"data", dir_.path("data")}, {"epochs", "0.3"}, {"threads", "1"}};
    run(4, "curve-of-ranks", curve);
    curve["virtual-ranks"] = "4";
    run(2, "curve", curve);
    EXPECT_LT(deviation(column(dir_.path("curve-of-ranks"), "train/loss"), column(dir_.path("curve"), "train/loss")),
              1e-4);
}

TEST_F(VirtualRanks, AccumulateIsShortForThem) {
    run(2, "accumulate", as_five({{"virtual-ranks", "0"}, {"accumulate", "3"}, {"threads", "1"}}));
    run(1, "virtual", as_five({{"virtual-ranks", "6"}, {"threads", "1"}}));
    expect_same_runs("accumulate", "virtual");
}

// Another instruction set stands in for another processor.
TEST_F(VirtualRanks, ARunThatGoesOnOnAnotherKindOfProcessorSaysHowFarThePromiseGoes) {
    const std::string rounding = "the order of samples is kept, but results agree within rounding only";
    run(1, "run", as_five({{"max-steps", "1"}}));
    run(2, "run", as_five(resumed({{"max-steps", "2"}})));
    EXPECT_TRUE(events("run", "warning").empty()) << "the same kind";
    for (const int steps : {3, 4}) {
        const std::string on = train("run", as_five(resumed({{"max-steps", std::to_string(steps)}})));
        const Finished f = mpirun(on_less(2, on), 120);
        ASSERT_EQ("", failure(f));
        EXPECT_EQ(count(f.out + f.err, rounding), steps == 3) << "said once: " << f.out << f.err;
    }
    const std::vector<std::string> warnings = events("run", "warning");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].find("step 3 and later run on "), 0u) << warnings[0];
    const size_t before = warnings[0].find(", earlier steps ran on ");
    ASSERT_NE(before, std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].substr(0, before).find("(SSE4.1), oneDNN "), std::string::npos) << warnings[0];
    EXPECT_EQ(warnings[0].substr(before).find("SSE4.1"), std::string::npos) << warnings[0];
}

TEST_F(VirtualRanks, RanksThatDifferInKindSaySo) {
    const std::string differ = "ranks differ in kind (", command = train("ranks", as_five({{"max-steps", "1"}}));
    const Finished f = mpirun("-np 2 " + sibling("convoy") + " " + command + " : " + on_less(1, command), 120);
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out + f.err, differ), 1) << f.out << f.err;
    const std::vector<std::string> warnings = events("ranks", "warning");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(count(warnings[0], ", oneDNN "), 2) << warnings[0];
    EXPECT_NE(warnings[0].find("--virtual-ranks needs processors or GPUs of one kind"), std::string::npos);
    const std::string alone = train("alone", as_five({{"max-steps", "1"}, {"virtual-ranks", "0"}}));
    ASSERT_EQ("", failure(mpirun("-np 2 " + sibling("convoy") + " " + alone + " : " + on_less(1, alone), 120)));
    EXPECT_TRUE(events("alone", "warning").empty()) << "nothing was promised";
}

TEST_F(VirtualRanks, WhatCannotBeIsRefused) {
    const auto refused = [&](int ranks, const Options& changes, Exit code, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(launch(ranks, train("refused", as_five(changes))), code, words));
    };
    refused(3, {{"virtual-ranks", "2"}}, Exit::usage, {"--virtual-ranks 2", "3 ranks"});
    refused(1, {{"sync-bn", "true"}}, Exit::usage, {"--virtual-ranks", "--sync-bn"});
    refused(1, {{"accumulate", "2"}}, Exit::usage, {"--accumulate", "--virtual-ranks"});
    refused(1, {{"batch-size", "4"}}, Exit::usage, {"--batch-size 4", "5 ranks"});
    run(1, "five", as_five({{"max-steps", "2"}}));
    const std::string on = train("five", as_five(resumed({{"virtual-ranks", "4"}})));
    EXPECT_EQ("", refusal(launch(1, on), Exit::usage, {"virtual ranks was 5", "this run has 4"}));
}

}  // namespace
}  // namespace convoy::test
