// Where GPUs have a data set: what is chosen, and that a training is the same either way.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"
#include "backend/cuda_queries.h"
#include "backend/gpu/planning_backend.h"
#include "tests/support/cluster.h"
#include "train/data_set.h"

namespace convoy::test {
namespace {

TEST(Placement, HalfOfAGpuStaysFree) {
    const size_t memory = size_t(10) << 30;
    const PlanningBackend gpu("a GPU", memory, "the memory of a GPU", {}, 1);
    EXPECT_EQ(place(Placement::automatic, gpu, memory / 2).placement, Placement::replicate);
    EXPECT_EQ(place(Placement::automatic, gpu, memory / 2 + 1).placement, Placement::node);
    EXPECT_EQ(place(Placement::replicate, gpu, memory).placement, Placement::replicate);
    const Placed node = place(Placement::node, gpu, size_t(1) << 30);
    EXPECT_EQ(node.placement, Placement::node);
    EXPECT_EQ(node.why,
              "the node's memory holds all images, 1.00 GiB, and GPUs read their batches from there; "
              "10.00 GiB were free on this one");
}

/// Trains on two GPUs; the losses of all steps.
class PlacementOnGpus : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (cuda::find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
        make_data(dir_.path("data"), 60, 20, "34x40x1", 3);
    }
    std::vector<double> losses(const std::string& run, const std::string& options) {
        const Finished f = launch(2,
                                  "train --device cuda --tune quick --model mnist-linear --batch-size 12 "
                                  "--lr 0.01 --log-interval 1 --data " +
                                      dir_.path("data") + " --output " + dir_.path(run) + " " + options);
        EXPECT_EQ("", failure(f)) << options;
        said_ = f.out;
        return column(dir_.path(run), "train/loss");
    }

    const TempDir dir_;
    std::string said_;
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

TEST_F(PlacementOnGpus, TheNodesCopyTakesNoMemoryOfTheGpu) {
    const auto taken = [&](const std::string& placement) {
        const Finished f = launch(1,
                                  "train --dry-run --device cuda --model mnist-linear --batch-size 12 "
                                  "--image-size 28 --data " +
                                      dir_.path("data") + " --data-placement " + placement);
        EXPECT_EQ("", failure(f));
        return std::stod(f.out.substr(f.out.find("gpu       ") + 10));  // MiB
    };
    // 80 images of 34x40 are 0.10 MiB; the line has one place behind the point.
    EXPECT_NEAR(taken("replicate") - taken("node"), 80 * 34 * 40 / 1048576.0, 0.11);
    EXPECT_GT(taken("replicate"), taken("node"));
}

}  // namespace
}  // namespace convoy::test
