// Messages for each way in which a GPU can be absent. No GPU is needed.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"
#include "backend/cuda_queries.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

using namespace cuda;

Found sound() {
    Found f;
    f.driver = 13000;
    f.runtime = 13000;
    f.visible = "(unset)";
    f.capabilities = {90};
    f.architectures = {80, 90};
    return f;
}

void says(const Found& f, const std::vector<std::string>& words) {
    const std::string reason = reason_without_device(f);
    EXPECT_NE(reason, "");
    for (const std::string& w : words)
        EXPECT_NE(reason.find(w), std::string::npos) << w << " is missing in: " << reason;
}

TEST(CudaAbsent, NothingToSayWhereItRuns) {
    EXPECT_EQ(reason_without_device(sound()), "");
    Found minor = sound();
    minor.driver = 13000;
    minor.runtime = 13010;
    EXPECT_EQ(reason_without_device(minor), "") << "drivers of the same major version run it";
}

TEST(CudaAbsent, EveryReasonIsSaid) {
    Found f = sound();
    f.driver = 0;
    f.capabilities = {};
    f.error = "CUDA driver version is insufficient for CUDA runtime version";
    says(f, {"no NVIDIA driver"});
    f = sound();
    f.driver = 12040;
    f.capabilities = {};
    says(f, {"too old", "12.4", "13.0"});
    f = sound();
    f.capabilities = {};
    f.error = "no CUDA-capable device is detected";
    says(f, {"no GPU", "no CUDA-capable device"});
    f.visible = "7";
    says(f, {"CUDA_VISIBLE_DEVICES", "'7'"});
    f = sound();
    f.capabilities = {75};
    says(f, {"7.5", "8.0", "build with CUDA_ARCHS=75"});
}

// nvcc of CUDA 13 compiles for 7.5 and newer.
TEST(CudaAbsent, OlderGpusAreToldOfTheToolkitThatKnowsThem) {
    for (const int capability : {60, 61, 70, 72}) {
        Found f = sound();
        f.capabilities = {capability};
        says(f, {"CUDA 12, cuDNN 9.10 and CUDA_ARCHS=" + std::to_string(capability), "src/README.md"});
        f.driver = f.runtime = 12040;
        f.architectures = {75, 80};
        says(f, {"; build with CUDA_ARCHS=" + std::to_string(capability)});
        f.architectures = {60, 61, 70, 75, 80};
        EXPECT_EQ(reason_without_device(f), "") << capability;
    }
    Found f = sound();
    f.capabilities = {52};
    says(f, {"5.2", "Convoy needs 6.0 or newer"});
    EXPECT_EQ(reason_without_device(f).find("CUDA_ARCHS"), std::string::npos);
}

TEST(CudaAbsent, MachineCodeAndPtxDecideWhatRuns) {
    const std::vector<int> built = {80, 90};
    for (const int c : {80, 86, 89, 90, 100, 120}) EXPECT_TRUE(runs_on(c, built)) << c;
    for (const int c : {60, 70, 75}) EXPECT_FALSE(runs_on(c, built)) << c;
    EXPECT_FALSE(runs_on(80, {90})) << "PTX is for what is newer";
    EXPECT_FALSE(runs_on(80, {}));
}

TEST(CudaAbsent, TheProgramRefusesOnceOnEveryNumberOfRanks) {
    if (cuda_unavailable().empty()) GTEST_SKIP() << "this machine has a GPU";
    TempDir dir;
    make_data(dir.path("data"), 8, 4, "28x28x1", 1);
    for (const int ranks : {1, 2}) {
        const Finished f = launch(ranks, "train --device cuda --batch-per-rank 4 --model mnist-linear --data " +
                                             dir.path("data") + " --output " + dir.path("run"));
        EXPECT_EQ("", refusal(f, Exit::usage, {"--device cuda", "no NVIDIA driver", "--device cpu"}));
    }
    const Finished low = convoy_alone("train --precision f16 --batch-per-rank 4 --model mnist-linear --data " +
                                      dir.path("data") + " --output " + dir.path("run"));
    EXPECT_EQ("", refusal(low, Exit::usage, {"--precision f16", "CPU", "bf16"}));
}

}  // namespace
}  // namespace convoy::test
