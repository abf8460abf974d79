// --virtual-ranks on GPUs: the same bits on one GPU and on two, and nearly those of the CPU.
#include "backend/cuda/device.h"
#include "backend/cuda_queries.h"
#include "data/hdf5.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

class CudaVirtualRanks : public ResumeTest {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (cuda::find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
        make_data(dir_.path("colours"), 25, 3, "8x8x3", 2);
        make_data(dir_.path("digits"), 65, 11, "28x28x1", 2);
    }
    /// Returns options for steps of 10, 10 … and 5 samples. Three logical ranks have 4, 3 and 3, or
    /// 2, 2 and 1 of them.
    static Options as_three(Options changes) {
        changes.insert({{"virtual-ranks", "3"}, {"batch-size", "10"}, {"epochs", "1"}, {"crop-pad", "1"}});
        if (changes.insert({"device", "cuda"}).first->second == "cuda") changes["tuning"] = "0";
        return changes;
    }
    /// Returns options for three steps per epoch.
    Options of_colours(Options changes = {}) const {
        changes.insert({{"data", dir_.path("colours")}, {"model", "resnet18"}, {"stem", "cifar"}});
        return as_three(changes);
    }
    /// Returns options for seven steps per epoch, with dropout.
    Options of_digits(Options changes = {}) const {
        changes.insert({"data", dir_.path("digits")});
        return as_three(changes);
    }
    void run(int ranks, const std::string& name, const Options& options, const std::string& more = "") {
        ASSERT_EQ("", failure(launch(ranks, train(name, options) + more, 300))) << name;
    }
    /// Returns the loss scale of the newest checkpoint.
    double loss_scale(const std::string& run) const {
        const std::string path = checkpoints(run).back();
        return h5::double_attributes(h5::open(path), "backend_state", path).at(0);
    }
    void expect_same_runs(const std::string& a, const std::string& b, size_t steps = 3) {
        ASSERT_GE(column(dir_.path(a), "train/loss").size(), steps);
        expect_same(a, b);
        EXPECT_EQ(column(dir_.path(a), "train/top5_accuracy"), column(dir_.path(b), "train/top5_accuracy"));
    }
};

// Covers one captured graph and step by step, NCCL and sums through the host.
TEST_F(CudaVirtualRanks, AreTheSameBitsOnOneGpuAndTwo) {
    run(1, "one", of_colours());
    run(2, "two", of_colours());
    run(2, "eager", of_colours(), " --no-graph");
    run(3, "shared", of_colours(), " --share-device");
    for (const char* other : {"two", "eager", "shared"}) expect_same_runs("one", other);
}

// A short version of the test above, with a model without batch norm.
TEST_F(CudaVirtualRanks, TrainTheMnistConvnetTheSameOnOneGpuAndTwo) {
    run(1, "one", of_digits());
    run(2, "two", of_digits());
    expect_same_runs("one", "two");
    run(2, "cpu", of_digits({{"device", "cpu"}}));
    EXPECT_LT(deviation(column(dir_.path("cpu"), "train/loss"), column(dir_.path("one"), "train/loss")), 1e-4);
}

// Steps overflow until the loss scale has fallen far enough: all ranks skip their updates alike,
// and their losses are still numbers.
TEST_F(CudaVirtualRanks, AreTheSameBitsInF16WhereStepsOverflow) {
    const Options options = of_digits({{"precision", "f16"}, {"loss", "sum"}, {"epochs", "3"}});
    run(1, "one", options);
    run(2, "two", options);
    run(2, "eager", options, " --no-graph");
    for (const char* other : {"two", "eager"}) {
        expect_same_runs("one", other, 21);
        EXPECT_EQ(loss_scale("one"), loss_scale(other));
    }
    EXPECT_LT(loss_scale("one"), 0x1p16) << "no step overflowed";
    EXPECT_GT(loss_scale("one"), 0x1p-5) << "every step did";
    run(1, "cpu", of_digits({{"device", "cpu"}, {"epochs", "0.1"}, {"no-eval", "true"}}));
    EXPECT_NEAR(column(dir_.path("one"), "train/loss").at(0), column(dir_.path("cpu"), "train/loss").at(0), 1e-2);
}

// Muon for filters, SGD for everything else, and averages of weights; batch norm in f16.
TEST_F(CudaVirtualRanks, AreTheSameBitsOfAirbench) {
    make_data(dir_.path("pictures"), 5, 3, "32x32x3", 2);
    const Options options = {{"virtual-ranks", "2"},  {"data", dir_.path("pictures")},
                             {"model", "airbench94"}, {"optimizer", "muon"},
                             {"look-ahead", "2"},     {"batch-size", "3"},
                             {"epochs", "1"},         {"eval-images", "1"},
                             {"precision", "f16"},    {"device", "cuda"},
                             {"tuning", "0"}};
    run(1, "one", options);
    run(2, "two", options);
    expect_same_runs("one", "two", 2);
}

// The host assembles batches, of which each logical rank has a part.
TEST_F(CudaVirtualRanks, AreTheSameBitsWhereverTheImagesAre) {
    run(1, "replica", of_colours({{"mixup", "0.2"}}));
    run(2, "partition", of_colours({{"mixup", "0.2"}, {"data-placement", "partition"}}));
    expect_same_runs("replica", "partition");
}

TEST_F(CudaVirtualRanks, GoOnWithAnotherNumberOfGpusBitForBit) {
    const Options steps = {{"epochs", "20"}, {"checkpoint-every", "3"}};
    run(2, "whole", of_digits(steps));
    int done = 0;
    for (const int ranks : {1, 2}) {
        interrupted(launch_command(ranks, train("chain", of_digits(resumed(steps))), 120), "chain", done += 30,
                    signal_to_the_newest_rank("chain", "KILL"));
        ASSERT_FALSE(fs::exists(dir_.path("chain") + "/model.h5")) << "nothing was interrupted";
    }
    run(1, "chain", of_digits(resumed(steps)));
    expect_same_runs("whole", "chain");
    const auto warnings = [&] {
        return count(read_file(dir_.path("chain") + "/metrics.jsonl"), "\"event\":\"warning\"");
    };
    EXPECT_EQ(warnings(), 0);
    const std::string on_a_cpu = train("chain", of_digits(resumed({{"epochs", "21"}, {"device", "cpu"}})));
    const Finished f = launch(1, on_a_cpu, 120);
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(warnings(), 1);
    EXPECT_EQ(count(f.out + f.err, ", earlier steps ran on "), 1) << f.out << f.err;
}

}  // namespace
}  // namespace convoy::test
