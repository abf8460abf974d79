// Records and warnings of a run on a GPU: the GPU itself and its other users. Runs on the emulated
// device with a simulated driver library.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class CudaEnvironment : public testing::Test {
protected:
    void SetUp() override {
        const std::string driver = sibling("driver"), library = driver + "/libnvidia-ml.so.1";
        if (!is_emulated()) GTEST_SKIP() << "needs the emulated device, whose driver library is made up";
        ASSERT_TRUE(std::filesystem::exists(library)) << library << " is missing: make emulated builds it";
        make_data(dir_.path("data"), 16, 4, "28x28x1", 1);
        environment_ = "-x LD_LIBRARY_PATH=" + driver + ":$LD_LIBRARY_PATH ";
    }
    Finished train(const std::string& environment, const std::string& options, int ranks = 1) const {
        return mpirun(environment_ + environment + " -np " + std::to_string(ranks) + " " + sibling("convoy") +
                      " train --model mnist-linear --batch-size 8 --device cuda --data " + dir_.path("data") +
                      " --overwrite --output " + dir_.path("run") + " " + options);
    }
    TempDir dir_;
    std::string environment_;
};

TEST_F(CudaEnvironment, TheBoardIsRecorded) {
    ASSERT_EQ("", failure(train("", "--max-steps 1")));
    const auto run = read_metrics(dir_.path("run") + "/metrics.h5").run;
    EXPECT_EQ(run.at("environment_gpu"), "emulated GPU");
    EXPECT_EQ(run.at("environment_gpu_serial"), "1322521000042");
    EXPECT_EQ(run.at("environment_gpu_uuid").size(), 32u);
}

TEST_F(CudaEnvironment, TemperatureAndUtilisationAreSampled) {
    const std::string command = "env LD_LIBRARY_PATH=" + sibling("driver") + ":$LD_LIBRARY_PATH " + sibling("convoy") +
                                " train --model mnist-linear --batch-size 8 --device cuda --data " + dir_.path("data") +
                                " --epochs 1000000 --eval-every 0 --checkpoint-every none --output " + dir_.path("run");
    const Finished f = sampled(command, dir_.path("run"), 2);
    ASSERT_EQ(f.code, 85) << f.err;
    const std::vector<double> celsius = column(dir_.path("run"), "system/temperature_celsius");
    ASSERT_GE(celsius.size(), 2u);
    for (const double c : celsius) EXPECT_EQ(c, 61);
    for (const double busy : column(dir_.path("run"), "system/utilisation")) EXPECT_EQ(busy, 0.87);
    const Finished report = convoy_alone("report --format json " + dir_.path("run"));
    ASSERT_EQ("", failure(report));
    const nlohmann::json rank = nlohmann::json::parse(report.out).at(0).at("ranks_seconds").at(0);
    EXPECT_NEAR(rank.at("utilisation").get<double>(), 0.87, 1e-12);
    EXPECT_EQ(rank.at("hottest_celsius"), 61);
}

TEST_F(CudaEnvironment, OtherUsersOfTheGpuAreNamedBeforeTheFirstStep) {
    const std::string warning = "is in use by process 4242 (3.0 GiB)";
    const Finished shared = train("-x EMULATED_NEIGHBOUR=/usr/bin/python3", "--max-steps 1");
    EXPECT_EQ("", failure(shared));
    EXPECT_NE(shared.err.find("warning: the GPU of rank 0 " + warning), std::string::npos) << shared.err;
    const Finished alone = train("", "--max-steps 1");
    EXPECT_EQ(alone.err.find("in use"), std::string::npos) << alone.err;
    // processes with --share-device belong to the job
    const Finished own = train("-x EMULATED_NEIGHBOUR=/usr/bin/python3", "--max-steps 1 --share-device", 2);
    EXPECT_EQ(own.err.find("in use"), std::string::npos) << own.err;
    // CUDA's multi-process service does not count as another user
    const Finished served = train("-x EMULATED_NEIGHBOUR=/usr/bin/nvidia-cuda-mps-server", "--max-steps 1");
    EXPECT_EQ("", failure(served));
    EXPECT_EQ(served.err.find("in use"), std::string::npos) << served.err;
}

}  // namespace
}  // namespace convoy::test
