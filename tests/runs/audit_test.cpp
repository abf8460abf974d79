// train --audit: the same bits as without audits, no alarm from sound ranks, and the name of a rank
// in whose memory another program flips a bit.
#include <nlohmann/json.hpp>

#include "data/hdf5.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

class Audit : public ResumeTest {
protected:
    /// Returns options in which ranks differ in nothing but their number, with audits or without.
    static Options alike(Options changes = {}, const std::string& audit = "none") {
        changes.insert({{"device", "cpu"}, {"threads", "1"}, {"tuning", "quick"}, {"audit", audit}});
        return changes;
    }
    /// Returns options of a model with batch norm, for 14 steps. Every seventh has three samples.
    Options of_colours(Options changes = {}, const std::string& audit = "none") {
        if (!fs::exists(dir_.path("colours"))) make_data(dir_.path("colours"), 75, 20, "12x12x3", 2);
        changes.insert(
            {{"data", dir_.path("colours")}, {"model", "resnet18"}, {"stem", "cifar"}, {"batch-size", "12"}});
        changes.insert({{"epochs", "2"}, {"checkpoint-every", "none"}});
        return alike(changes, audit);
    }
    void run(int ranks, const std::string& name, const Options& options) {
        ASSERT_EQ("", failure(launch(ranks, train(name, options), 120))) << name;
    }
    /// Trains with and without audits. Expects the same bits, `audits` audits and no alarm.
    void expect_unchanged(int ranks, const std::string& name, const Options& without, const Options& with, int audits) {
        run(ranks, name, without);
        run(ranks, name + "-audited", with);
        expect_same(name, name + "-audited");
        EXPECT_EQ(attribute(name + "-audited", "audits"), audits);
        EXPECT_EQ(attribute(name + "-audited", "audits_with_a_difference"), 0);
        EXPECT_EQ(alarms(name + "-audited"), std::vector<std::string>());
    }
    int64_t attribute(const std::string& run, const std::string& name) const {
        const std::string path = dir_.path(run) + "/metrics.h5";
        const h5::Handle file = h5::open(path), attributes(H5Gopen2(file, "run", H5P_DEFAULT));
        return h5::int_attribute(attributes, name, path);
    }
    /// Returns the messages of a run's events of the kind "audit".
    std::vector<std::string> alarms(const std::string& run) {
        steps_.clear();
        std::vector<std::string> messages;
        std::istringstream lines(read_file(dir_.path(run) + "/metrics.jsonl"));
        for (std::string line; std::getline(lines, line);)
            if (const auto row = nlohmann::json::parse(line); row["kind"] == "event" && row["event"] == "audit") {
                messages.push_back(row["message"]);
                steps_.push_back(row["step"]);
            }
        return messages;
    }
    /// Writes some bytes of frozen weights to a file. The fourth float's sign is in the middle, so
    /// that flip_bit.py turns it.
    void write_pattern() {
        run(1, "weights", frozen({{"max-steps", "1"}}));
        const std::vector<float> weights = tensors(dir_.path("weights") + "/model.h5").at("conv2.weight");
        ASSERT_GT(std::abs(weights[3]), 1e-4f);
        write_file(dir_.path("pattern"), std::string(reinterpret_cast<const char*>(weights.data()), 30));
    }
    static Options frozen(Options changes) {
        changes.insert({"freeze", "conv2.*"});
        return alike(changes, "1/10");
    }
    /// Trains on three ranks, and flips a bit of a frozen weight of rank 1 after 40 steps.
    Finished with_a_flip(const std::string& name, const Options& options) {
        return interrupted(launch_command(3, train(name, frozen(options)), 100), name, 40,
                           "/usr/bin/python3 tests/support/flip_bit.py " + dir_.path("pattern") + " " +
                               dir_.path(name) + " 1 1 20 || kill $job");
    }
    static void expect_rank_1(const std::string& text) {
        EXPECT_EQ(count(text, "rank 1 on "), 1) << text;
        EXPECT_EQ(count(text, "has other weights than most ranks"), 1) << text;
        EXPECT_EQ(count(text, "rank 0 on ") + count(text, "rank 2 on "), 0) << text;
    }

    std::vector<int64_t> steps_;  // of the last alarms()
};

// Dropout, crops, flips and a smaller last batch, whose shares differ in size.
TEST_F(Audit, ChangesNoBitOfAConvnet) {
    for (const int ranks : {1, 2, 3})
        expect_unchanged(ranks, "ranks" + std::to_string(ranks), alike({{"epochs", "1"}}),
                         alike({{"epochs", "1"}}, "1/10"), 10);
}

TEST_F(Audit, ChangesNoBitOfAModelWithBatchNorm) {
    for (const int ranks : {2, 3})
        expect_unchanged(ranks, "ranks" + std::to_string(ranks), of_colours(), of_colours({}, "1/2"), 7);
}

// The host assembles batches: at audited steps with the shares of two more ranks.
TEST_F(Audit, ChangesNoBitWhereTheHostSuppliesMixedImages) {
    for (const char* placement : {"partition", "stream"}) {
        const Options options = {{"epochs", "0.5"}, {"mixup", "0.4"}, {"data-placement", placement}};
        expect_unchanged(3, placement, alike(options), alike(options, "1/5"), 10);
    }
}

// Five logical ranks on three ranks, in up to two lanes; and the same bits on one rank.
TEST_F(Audit, ChangesNoBitOfLogicalRanks) {
    const auto as_five = [&](const char* threads, const char* audit) {
        return of_colours({{"virtual-ranks", "5"}, {"threads", threads}}, audit);
    };
    expect_unchanged(3, "three", as_five("2", "none"), as_five("2", "1/2"), 7);
    expect_unchanged(1, "one", as_five("3", "none"), as_five("3", "1/3"), 4);
    expect_same("one", "three-audited");
}

// Every second of 400 steps, on threads that split sums.
TEST_F(Audit, SoundRanksRaiseNoAlarmInHundredsOfSteps) {
    run(3, "long", alike({{"threads", "2"}}, "1/2"));
    EXPECT_EQ(attribute("long", "audits"), 200);
    EXPECT_EQ(attribute("long", "audits_with_a_difference"), 0);
    EXPECT_EQ(alarms("long"), std::vector<std::string>());
}

TEST_F(Audit, AResumedRunGoesOnBitForBit) {
    const Options options = alike({}, "1/3");
    run(2, "whole", options);
    const Finished stopped = interrupted(launch_command(2, train("part", options), 60), "part", 20,
                                         signal_to_the_newest_rank("part", "USR1"));
    EXPECT_EQ(stopped.code, int(Exit::requeue)) << stopped.out << stopped.err;
    run(2, "part", resumed(options));
    expect_same("whole", "part");
    EXPECT_EQ(alarms("part"), std::vector<std::string>());
}

// The bit is flipped by another program, as a fault of memory is.
TEST_F(Audit, StopNamesTheRankWithAFlippedBit) {
    write_pattern();
    const Finished f = with_a_flip("run", {{"epochs", "100"}});
    if (f.err.find("flips only") != std::string::npos) GTEST_SKIP() << "no right to write another process's memory";
    EXPECT_EQ("", refusal(f, Exit::not_accepted, {"audit of step ", "rank 1 on ", "convoy accept"}));
    const std::vector<std::string> all = alarms("run");
    ASSERT_EQ(all.size(), 1u) << f.err;
    expect_rank_1(all[0]);
    EXPECT_EQ(steps_[0] % 10, 0);
    EXPECT_EQ(count(all[0], "resume from a checkpoint of step " + std::to_string(steps_[0] - 11) + " or before"), 1)
        << all[0];
    EXPECT_FALSE(checkpoints("run").empty()) << "those from before the fault stay";
    record_fault("a bit of one rank's weights, flipped by another program; `--audit 1/10`",
                 "that rank is named, exit 8", "rank 1 of 3 named, the others not; exit 8", 1);
}

TEST_F(Audit, WarnNamesTheRankAndTrainsOn) {
    write_pattern();
    const Finished f = with_a_flip("run", {{"epochs", "100"},
                                           {"eval-every", "0"},
                                           {"audit", "1/100"},
                                           {"on-audit", "warn"},
                                           {"checkpoint-every", "none"}});
    if (f.err.find("flips only") != std::string::npos) GTEST_SKIP() << "no right to write another process's memory";
    ASSERT_EQ("", failure(f));
    const std::vector<std::string> all = alarms("run");
    ASSERT_FALSE(all.empty()) << "the run ended before the bit was flipped";
    for (const std::string& alarm : all) expect_rank_1(alarm);
    EXPECT_EQ(int64_t(all.size()), (10'000 - steps_[0]) / 100 + 1) << "every audit from then on";
    EXPECT_EQ(count(f.out + f.err, "warning: audit of step "), int(all.size()));
    EXPECT_EQ(attribute("run", "audits_with_a_difference"), int64_t(all.size()));
    EXPECT_TRUE(fs::exists(dir_.path("run") + "/model.h5"));
}

TEST_F(Audit, WhatCannotBeAuditedIsRefused) {
    const auto refused = [&](const std::string& arguments, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(mpirun(arguments), Exit::usage, words)) << arguments;
    };
    const std::string convoy = sibling("convoy") + " ", audited = convoy + train("run", alike({}, "1/5"));
    refused("-np 2 " + convoy + train("run", of_colours({{"sync-bn", "true"}}, "1/5")), {"--audit", "--sync-bn"});
    refused("-np 1 " + audited + " : -np 1 -x ONEDNN_MAX_CPU_ISA=SSE41 " + audited, {"--audit", "SSE4.1", "one kind"});
    refused("-np 1 " + audited + " : -np 1 " + convoy + train("run", alike({{"threads", "2"}}, "1/5")),
            {"--audit", "1 threads", "2 threads", "--threads"});
    refused("-np 1 " + convoy + "bench --model mnist-conv --batch-size 8 --audit 1/5",
            {"--audit", "no meaning for bench"});
    refused("-np 1 " + convoy + train("run", alike({}, "5")), {"--audit 5", "1/50", "none"});
    EXPECT_FALSE(fs::exists(dir_.path("run")));
}

}  // namespace
}  // namespace convoy::test
