// --audit on GPUs: the same bits as without, one captured graph or not; and a flipped bit in the
// memory of the emulated device.
#include "backend/cuda/device.h"
#include "backend/cuda_queries.h"
#include "data/hdf5.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

class CudaAudit : public ResumeTest {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (cuda::find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
        make_data(dir_.path("digits"), 65, 11, "28x28x1", 2);
    }
    /// Returns options for seven steps per epoch, with dropout. The last step has five samples.
    Options of_digits(Options changes, const std::string& audit) const {
        changes.insert({{"data", dir_.path("digits")}, {"batch-size", "10"}, {"epochs", "2"}, {"crop-pad", "1"}});
        changes.insert({{"device", "cuda"}, {"tuning", "0"}, {"audit", audit}});
        return changes;
    }
    void run(int ranks, const std::string& name, const Options& options, const std::string& more = "") {
        ASSERT_EQ("", failure(launch(ranks, train(name, options) + more, 300))) << name;
    }
    /// Trains with and without audits. Expects the same bits, seven audits and no difference.
    void expect_unchanged(int ranks, const std::string& name, const Options& options, const std::string& more = "") {
        run(ranks, name, of_digits(options, "none"), more);
        run(ranks, name + "-audited", of_digits(options, "1/2"), more);
        expect_same(name, name + "-audited");
        const h5::Handle file = h5::open(dir_.path(name + "-audited/metrics.h5")),
                         attributes(H5Gopen2(file, "run", H5P_DEFAULT));
        EXPECT_EQ(h5::int_attribute(attributes, "audits", "x"), 7);
        EXPECT_EQ(h5::int_attribute(attributes, "audits_with_a_difference", "x"), 0);
    }
};

// An audited step runs as two graphs, whose captures come at its second and fourth audit.
TEST_F(CudaAudit, ChangesNoBitOnOneGpuAndTwo) {
    expect_unchanged(1, "one", {});
    expect_unchanged(2, "two", {});
}

TEST_F(CudaAudit, ChangesNoBitStepByStepInF16) { expect_unchanged(2, "f16", {{"precision", "f16"}}, " --no-graph"); }

TEST_F(CudaAudit, ChangesNoBitOfLogicalRanksWhoseBatchesTheHostSupplies) {
    expect_unchanged(2, "three", {{"virtual-ranks", "3"}, {"data-placement", "partition"}, {"mixup", "0.3"}});
}

// Three ranks share the device, so that the programs of a vote are built, too.
TEST_F(CudaAudit, ChangesNoBitOfThreeRanks) { expect_unchanged(3, "shared", {}, " --share-device"); }

TEST_F(CudaAudit, AFlippedBitOfADevicesMemoryIsNamedWithItsRank) {
    if (!is_emulated()) GTEST_SKIP() << "only the emulated device's memory is that of a process";
    const Options options = {{"freeze", "conv2.*"}, {"checkpoint-every", "none"}};
    run(1, "weights", of_digits(options, "none"));
    const std::vector<float> weights = tensors(dir_.path("weights") + "/model.h5").at("conv2.weight");
    ASSERT_GT(std::abs(weights[3]), 1e-4f);  // the sign of this float is in the middle of 30 bytes
    write_file(dir_.path("pattern"), std::string(reinterpret_cast<const char*>(weights.data()), 30));
    Options endless = options;
    endless["epochs"] = "1000";
    const std::string job = launch_command(3, train("run", of_digits(endless, "1/5")) + " --share-device", 200);
    const Finished f = interrupted(job, "run", 12,
                                   "/usr/bin/python3 tests/support/flip_bit.py " + dir_.path("pattern") + " " +
                                       dir_.path("run") + " 1 1 60 || kill $job");
    if (f.err.find("flips only") != std::string::npos) GTEST_SKIP() << "no right to write another process's memory";
    EXPECT_EQ("",
              refusal(f, Exit::not_accepted, {"audit of step ", "rank 1 on ", "has other weights than most ranks"}));
    EXPECT_EQ(count(f.err, "rank 0 on ") + count(f.err, "rank 2 on "), 0) << f.err;
}

}  // namespace
}  // namespace convoy::test
