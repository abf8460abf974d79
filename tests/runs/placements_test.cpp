// The placement of a training's images changes nothing except the order of a stream. That order is
// the same on any number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/runs/resume.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

class Placements : public ResumeTest {
protected:
    Placements() { make_data(dir_.path("shards"), 1990, 100, "28x28x1", 30); }

    /// Returns ResumeTest::train's command, on a set of many shards.
    std::string train(const std::string& run, Options changes) const {
        changes.emplace("data", dir_.path("shards"));
        return ResumeTest::train(run, changes);
    }
    /// Returns options for blocks of 400 images, of 1,990.
    static Options streamed(Options changes = {}) {
        changes.insert({{"data-placement", "stream"}, {"stream-block-mib", "0.3"}});
        return changes;
    }
    std::vector<double> losses(const std::string& run) const { return column(dir_.path(run), "train/loss"); }
};

TEST_F(Placements, APartitionTrainsAsAReplicaDoes) {
    for (const int ranks : {1, 2, 3}) {
        for (const char* placement : {"replicate", "partition"})
            ASSERT_EQ(
                "",
                failure(launch(
                    ranks, train(placement, {{"data-placement", placement}, {"epochs", "2"}, {"overwrite", "true"}}))));
        expect_same("replicate", "partition");
    }
}

TEST_F(Placements, AStreamIsTheSameOnAnyRanks) {
    for (const int ranks : {1, 2, 4})
        ASSERT_EQ("", failure(launch(ranks, train(std::to_string(ranks),
                                                  streamed({{"model", "mnist-linear"}, {"epochs", "2"}})))));
    ASSERT_EQ("", failure(launch(1, train("replicate", {{"model", "mnist-linear"}, {"epochs", "2"}}))));
    ASSERT_EQ(losses("1").size(), 200u);
    for (const char* ranks : {"2", "4"}) EXPECT_LT(deviation(losses("1"), losses(ranks)), 1e-5) << ranks << " ranks";
    EXPECT_GT(deviation(losses("1"), losses("replicate")), 0.01) << "an order of its own";
}

TEST_F(Placements, AnInterruptedStreamGoesOnBitForBit) {
    ASSERT_EQ("", failure(launch(2, train("whole", streamed()))));
    const Finished stopped = interrupted(launch_command(2, train("part", streamed())), "part", 130,
                                         signal_to_the_newest_rank("part", "USR1"));
    EXPECT_EQ(stopped.code, int(Exit::requeue)) << stopped.out << stopped.err;
    EXPECT_LT(losses("part").size(), 400u);
    // without --data-placement a streamed run keeps streaming
    ASSERT_EQ("", failure(launch(2, train("part", resumed()))));
    expect_same("whole", "part");
}

TEST_F(Placements, ARunGoesOnAsAPartitionButNotAsAStream) {
    const Options first = {{"max-steps", "150"}, {"checkpoint-every", "150"}};
    ASSERT_EQ("", failure(launch(2, train("whole", {{"max-steps", "220"}}))));
    ASSERT_EQ("", failure(launch(2, train("part", first))));
    EXPECT_EQ("", refusal(launch(2, train("part", streamed(resumed({{"max-steps", "220"}})))), Exit::usage,
                          {"order of samples", "was none", "stream", "resume with what it was"}));
    ASSERT_EQ("", failure(launch(2, train("part", resumed({{"max-steps", "220"}, {"data-placement", "partition"}})))));
    EXPECT_EQ(losses("part"), losses("whole"));
}

TEST_F(Placements, ABatchBeyondTwoBlocksIsRefused) {
    for (const char* dry : {"false", "true"})
        EXPECT_EQ("", refusal(launch(2, train("run", streamed({{"batch-size", "900"}, {"dry-run", dry}}))), Exit::usage,
                              {"a global batch of 900 images may need more than two blocks", "--stream-block-mib"}));
}

TEST_F(Placements, AnEvaluationIsTheSame) {
    ASSERT_EQ("", failure(launch(1, train("run", {{"max-steps", "60"}}))));
    std::vector<Score> scores;
    for (const char* placement : {"replicate", "partition", "stream"})
        for (const int ranks : {1, 3}) {
            const Finished f =
                launch(ranks, "evaluate --split train --model-file " + dir_.path("run") + "/model.h5 --data " +
                                  dir_.path("shards") + " --data-placement " + placement);
            EXPECT_EQ("", failure(f)) << placement;
            scores.push_back(score_of(f.out));
            EXPECT_EQ(scores.back().images, 1990);
            EXPECT_EQ(scores.back().correct, scores[0].correct) << placement << " on " << ranks;
            EXPECT_NEAR(scores.back().loss, scores[0].loss, 1e-4);
        }
}

// The whitening filters of airbench94 come from the first images, wherever they are placed.
TEST_F(Placements, WhiteningFiltersAreThoseOfAReplica) {
    make_data(dir_.path("rgb"), 600, 60, "32x32x3", 9);
    for (const char* placement : {"replicate", "partition", "stream"})
        ASSERT_EQ("",
                  failure(launch(2, "train --model airbench94 --batch-size 20 --max-steps 1 --no-eval --lr 0 --data " +
                                        dir_.path("rgb") + " --output " + dir_.path(placement) + " --data-placement " +
                                        placement)));
    const auto filters = [&](const char* run) {
        for (const auto& [name, values] : tensors(dir_.path(run) + "/model.h5"))
            if (name.find("whiten") != std::string::npos) return values;
        return std::vector<float>();
    };
    ASSERT_FALSE(filters("replicate").empty());
    EXPECT_EQ(filters("partition"), filters("replicate"));
    EXPECT_EQ(filters("stream"), filters("replicate"));
}

// Images of many sizes, crops that show part of each, and a size that grows.
TEST_F(Placements, ImagesOfManySizesAreCroppedAlike) {
    make_ragged(dir_.path("ragged"), ImageLayout::raw, 40);
    const Options cropped = {{"data", dir_.path("ragged")},
                             {"model", "resnet18"},
                             {"image-size", "16:0,24:1"},
                             {"epochs", "2"},
                             {"random-resized-crop", "true"},
                             {"batch-size", "20"},
                             {"crop-pad", "0"},
                             {"sync-bn", "true"},
                             {"lr", "0.001"}};
    const auto run = [&](const std::string& name, int ranks, Options more) {
        more.insert(cropped.begin(), cropped.end());
        ASSERT_EQ("", failure(launch(ranks, ResumeTest::train(name, more))));
    };
    run("replicate", 2, {});
    run("partition", 2, {{"data-placement", "partition"}});
    // learning is negligible at this rate, so rounding does not grow: losses are those of the
    // batches
    for (const int ranks : {1, 2})
        run(std::to_string(ranks), ranks, {{"data-placement", "stream"}, {"stream-block-mib", "0.2"}, {"lr", "1e-9"}});
    expect_same("replicate", "partition");
    EXPECT_LT(deviation(losses("1"), losses("2")), 1e-3);
}

// Two hosts with two ranks each: some of a rank's samples are on the other host.
TEST_F(Placements, TwoHostsTrainAsOne) {
    const auto on_two_hosts = [&](const std::string& command) {
        return run(with_limit("tests/support/two_hosts.sh '" + sibling("convoy") + " " + command + " >&2' 2 ''", 100));
    };
    for (const char* placement : {"replicate", "partition", "stream"}) {
        Options options = {{"data-placement", placement}, {"max-steps", "120"}};
        if (options["data-placement"] == "stream") options = streamed(options);
        const Finished f = on_two_hosts(train(placement, options));
        if (f.code == 77) GTEST_SKIP() << "no permission to make network namespaces";
        ASSERT_EQ(f.out.substr(0, 2), "0 ") << f.out << f.err;
    }
    expect_same("replicate", "partition");
    ASSERT_EQ("", failure(launch(4, train("here", streamed({{"max-steps", "120"}})))));
    expect_same("here", "stream");
}

// The search for the first value that is not finite uses the batch that caused it.
TEST_F(Placements, AStepIsDoneAgainOnItsOwnBatch) {
    for (const char* placement : {"replicate", "partition", "stream"})
        EXPECT_EQ("", refusal(launch(2, train(placement, {{"lr", "1e30"}, {"data-placement", placement}})),
                              Exit::not_finite, {"not finite", "lower --lr"}))
            << placement;
}

}  // namespace
}  // namespace convoy::test
