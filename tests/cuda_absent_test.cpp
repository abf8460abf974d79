// What Convoy says about each way a GPU can be absent, and which GPU a rank takes. No GPU is needed.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"
#include "cluster.h"

namespace convoy::test {
namespace {

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
    for (const std::string& w : words) EXPECT_NE(reason.find(w), std::string::npos) << w << " is missing in: " << reason;
}

TEST(CudaAbsent, NothingToSayWhereItRuns) {
    EXPECT_EQ(reason_without_device(sound()), "");
    Found minor = sound();
    minor.driver = 13000, minor.runtime = 13010;
    EXPECT_EQ(reason_without_device(minor), "") << "drivers of the same major version run it";
}

TEST(CudaAbsent, EveryReasonIsSaid) {
    Found f = sound();
    f.driver = 0, f.capabilities = {}, f.error = "CUDA driver version is insufficient for CUDA runtime version";
    says(f, {"no NVIDIA driver"});
    f = sound();
    f.driver = 12040, f.capabilities = {};
    says(f, {"too old", "12.4", "13.0"});
    f = sound();
    f.capabilities = {}, f.error = "no CUDA-capable device is detected";
    says(f, {"no GPU", "no CUDA-capable device"});
    f.visible = "7";
    says(f, {"CUDA_VISIBLE_DEVICES", "'7'"});
    f = sound();
    f.capabilities = {75};
    says(f, {"7.5", "8.0", "CUDA_ARCHS=75"});
}

TEST(CudaAbsent, MachineCodeAndPtxDecideWhatRuns) {
    const std::vector<int> built = {80, 90};
    for (const int c : {80, 86, 89, 90, 100, 120}) EXPECT_TRUE(runs_on(c, built)) << c;
    for (const int c : {60, 70, 75}) EXPECT_FALSE(runs_on(c, built)) << c;
    EXPECT_FALSE(runs_on(80, {90})) << "PTX is for what is newer";
    EXPECT_FALSE(runs_on(80, {}));
}

TEST(CudaDevice, RanksTakeDevicesInOrder) {
    for (int r = 0; r < 4; ++r) EXPECT_EQ(device_of_rank(r, 4, 4, {}, false), r) << "each rank sees all";
    for (int r = 0; r < 4; ++r) EXPECT_EQ(device_of_rank(r, 4, 1, {}, false), 0) << "each rank sees one";
    EXPECT_EQ(device_of_rank(0, 2, 4, {3, 1}, false), 3);
    EXPECT_EQ(device_of_rank(1, 2, 4, {3, 1}, false), 1);
    EXPECT_EQ(device_of_rank(5, 6, 2, {}, true), 1);
    EXPECT_EQ(device_of_rank(2, 3, 4, {3, 1}, true), 3);
}

TEST(CudaDevice, WhatCannotBeIsAnError) {
    EXPECT_THROW(device_of_rank(2, 3, 2, {}, false), Error) << "more ranks than devices";
    EXPECT_THROW(device_of_rank(2, 3, 4, {0, 1}, false), Error) << "more ranks than --devices";
    EXPECT_THROW(device_of_rank(0, 1, 2, {2}, false), Error) << "no such device";
    try {
        device_of_rank(0, 1, 2, {5}, false);
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
        EXPECT_NE(std::string(e.what()).find("device 5"), std::string::npos) << e.what();
    }
}

TEST(CudaDevice, TwoRanksOnOneAreFoundByUuid) {
    EXPECT_EQ(shared_device({"a 1", "a 2", "b 1"}), "") << "another host's device is another";
    const std::string text = shared_device({"a 1", "a 2", "a 1"});
    for (const char* word : {"ranks 0 and 2", "on a", "--share-device"}) EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(CudaAbsent, TheProgramRefusesOnceOnEveryNumberOfRanks) {
    if (cuda_unavailable().empty()) GTEST_SKIP() << "this machine has a GPU";
    TempDir dir;
    make_data(dir.path("data"), 8, 4, "28x28x1", 1);
    for (const int ranks : {1, 2}) {
        const Finished f = launch(ranks, "train --device cuda --batch-per-rank 4 --model mnist-linear --data " + dir.path("data") +
                                             " --output " + dir.path("run"));
        EXPECT_EQ("", refusal(f, Exit::usage, {"--device cuda", "no NVIDIA driver", "--device cpu"}));
    }
    const Finished low = convoy_alone("train --precision f16 --batch-per-rank 4 --model mnist-linear --data " + dir.path("data") +
                                      " --output " + dir.path("run"));
    EXPECT_EQ("", refusal(low, Exit::usage, {"--precision f16", "CPU", "bf16"}));
}

}  // namespace
}  // namespace convoy::test
