// Placement of a data set on GPUs: the choice, and that a training is the same either way.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"
#include "backend/cuda_queries.h"
#include "backend/gpu/dry_run_backend.h"
#include "supply/data_set.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

/// Returns the placement of `bytes` bytes on a GPU of 10 GiB; the host is not checked.
Placed placed(Placement wanted, size_t bytes) {
    const DryRunBackend gpu("a GPU", size_t(10) << 30, "the memory of a GPU", {}, 1);
    return place(test_comm(), gpu, {.placement = wanted, .here = false}, {bytes});
}

TEST(Placement, HalfOfAGpuStaysFree) {
    const size_t half = size_t(5) << 30;
    EXPECT_EQ(placed(Placement::automatic, half).placement, Placement::replicate);
    EXPECT_EQ(placed(Placement::automatic, half + 1).placement, Placement::node);
    EXPECT_EQ(placed(Placement::replicate, 2 * half).placement, Placement::replicate);
    const Placed node = placed(Placement::node, half / 5);
    EXPECT_EQ(node.placement, Placement::node);
    EXPECT_EQ(node.why,
              "the node's memory holds all images, 1.00 GiB, and GPUs read their batches from there; "
              "10.00 GiB were free on this one");
}

/// Trains on two GPUs, and compares the losses of all steps.
class PlacementOnGpus : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (cuda::find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
        make_data(dir_.path("data"), 60, 20, "34x40x1", 10);
    }
    std::vector<double> losses(const std::string& run, const std::string& options) {
        const Finished f = launch(2, "train --device cuda --tuning quick --batch-size 12 --log-interval 1 " + trained_ +
                                         " --output " + dir_.path(run) + " " + options);
        EXPECT_EQ("", failure(f)) << options;
        said_ = f.out;
        return column(dir_.path(run), "train/loss");
    }

    const TempDir dir_;
    std::string trained_ = "--model mnist-linear --lr 0.01 --data " + dir_.path("data"), said_;
};

TEST_F(PlacementOnGpus, ATrainingIsTheSameBitForBit) {
    const std::string options = "--image-size 28 --random-resized-crop --flip --data-placement ";
    const std::vector<double> copies = losses("replicate", options + "replicate");
    EXPECT_NE(said_.find("images    each GPU holds all images"), std::string::npos) << said_;
    ASSERT_EQ(copies.size(), 5u);
    EXPECT_EQ(losses("node", options + "node"), copies);
    EXPECT_NE(said_.find("images    the node's memory holds all images"), std::string::npos) << said_;
    EXPECT_EQ(column(dir_.path("node"), "eval/loss"), column(dir_.path("replicate"), "eval/loss"));
}

TEST_F(PlacementOnGpus, APartitionTrainsAsAReplicaDoes) {
    const std::string options = "--image-size 28 --random-resized-crop --flip --epochs 3 --data-placement ";
    const std::vector<double> copies = losses("replicate", options + "replicate");
    EXPECT_EQ(losses("partition", options + "partition"), copies);
    EXPECT_EQ(column(dir_.path("partition"), "eval/loss"), column(dir_.path("replicate"), "eval/loss"));
    EXPECT_EQ(losses("again", options + "partition --no-graph"), copies) << "launched one by one";
}

// The same wherever the images are, captured or launched one by one; and up to rounding on CPUs.
TEST_F(PlacementOnGpus, MixedImagesAreTheSame) {
    const std::string options =
        "--image-size 28 --random-resized-crop --flip --mixup 0.4 --cutmix 1 --epochs 2 --data-placement ";
    const std::vector<double> copies = losses("replicate", options + "replicate");
    ASSERT_EQ(copies.size(), 10u);
    for (const char* placement : {"node", "partition"}) EXPECT_EQ(losses(placement, options + placement), copies);
    EXPECT_EQ(losses("eager", options + "partition --no-graph"), copies);
    EXPECT_EQ(column(dir_.path("partition"), "eval/loss"), column(dir_.path("replicate"), "eval/loss"));
    ASSERT_EQ("",
              failure(launch(2,
                             "train --device cpu --model mnist-linear --batch-size 12 --lr 0.01 --log-interval 1 "
                             "--data " +
                                 dir_.path("data") + " --output " + dir_.path("cpu") + " " + options + "replicate")));
    EXPECT_LT(deviation(copies, column(dir_.path("cpu"), "train/loss")), 1e-4);
}

// Like the test above, for colour images. Weights stay constant, because they would propagate
// differences in rounding.
TEST_F(PlacementOnGpus, JitteredImagesAreTheSame) {
    make_data(dir_.path("colours"), 24, 6, "8x8x3", 10);
    trained_ = "--model resnet18 --stem cifar --sync-bn --no-eval --lr 0 --data " + dir_.path("colours");
    const std::string options =
        "--image-size 6 --random-resized-crop --mixup 0.4 --color-jitter 0.4,0.4,0.4,0.1 --data-placement ";
    const std::vector<double> copies = losses("replicate", options + "replicate");
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_EQ(losses("partition", options + "partition"), copies);
    ASSERT_EQ("", failure(launch(2, "train --device cpu --batch-size 12 --log-interval 1 " + trained_ + " --output " +
                                        dir_.path("cpu") + " " + options + "replicate")));
    EXPECT_LT(deviation(copies, column(dir_.path("cpu"), "train/loss")), 1e-4);
}

// Batches are the same captured, launched one by one, and on CPUs.
TEST_F(PlacementOnGpus, AStreamHasTheOrderOfCpus) {
    const std::string options =
        "--image-size 28 --random-resized-crop --flip --epochs 3 --data-placement stream "
        "--stream-block-mib 0.03 ";
    const std::vector<double> captured = losses("stream", options);
    ASSERT_EQ(captured.size(), 15u);
    EXPECT_EQ(losses("eager", options + "--no-graph"), captured);
    ASSERT_EQ("", failure(launch(2,
                                 "train --device cpu --model mnist-linear --batch-size 12 --lr 0.01 --log-interval 1 "
                                 "--data " +
                                     dir_.path("data") + " --output " + dir_.path("cpu") + " " + options)));
    EXPECT_LT(deviation(captured, column(dir_.path("cpu"), "train/loss")), 1e-4);
}

TEST_F(PlacementOnGpus, TheNodesCopyTakesNoMemoryOfTheGpu) {
    const auto taken = [&](const std::string& placement) {
        const Finished f = launch(1,
                                  "train --dry-run --device cuda --model mnist-linear --batch-size 12 "
                                  "--image-size 28 --data " +
                                      dir_.path("data") + " --data-placement " + placement);
        EXPECT_EQ("", failure(f));
        return std::stod(f.out.substr(f.out.find("gpu       ") + 10));  // MiB
    };
    // 80 images of 34x40 are 0.10 MiB; the line has one decimal place.
    EXPECT_NEAR(taken("replicate") - taken("node"), 80 * 34 * 40 / 1048576.0, 0.11);
    EXPECT_GT(taken("replicate"), taken("node"));
}

}  // namespace
}  // namespace convoy::test
