// Selection of a rank's GPU, and refusals. No GPU is needed.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"

namespace convoy::test {
namespace {

using namespace cuda;

TEST(CudaDeviceChoice, RanksTakeDevicesInOrder) {
    for (int r = 0; r < 4; ++r) EXPECT_EQ(device_of_rank(r, 4, 4, {}, false), r) << "each rank sees all";
    for (int r = 0; r < 4; ++r) EXPECT_EQ(device_of_rank(r, 4, 1, {}, false), 0) << "each rank sees one";
    EXPECT_EQ(device_of_rank(0, 2, 4, {3, 1}, false), 3);
    EXPECT_EQ(device_of_rank(1, 2, 4, {3, 1}, false), 1);
    EXPECT_EQ(device_of_rank(5, 6, 2, {}, true), 1);
    EXPECT_EQ(device_of_rank(2, 3, 4, {3, 1}, true), 3);
}

TEST(CudaDeviceChoice, WhatCannotBeIsAnError) {
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

/// Returns the message to a rank about its device; empty if it can compute there.
std::string refusal_of(int capability, const std::vector<int>& architectures, Precision precision,
                       int runtime = 13000) {
    Found found;
    found.runtime = runtime;
    found.architectures = architectures;
    DeviceInfo device;
    device.name = "Tesla";
    device.capability = capability;
    try {
        check_device(device, found, precision, 3);
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
        return e.what();
    }
    return "";
}

TEST(CudaDeviceChoice, ADeviceMustHaveKernelsAndThePrecision) {
    const std::vector<int> built = {60, 70, 80};
    for (const Precision p : {Precision::f32, Precision::f16}) EXPECT_EQ(refusal_of(70, built, p, 12040), "");
    for (const Precision p : {Precision::tf32, Precision::bf16}) {
        EXPECT_EQ(refusal_of(80, built, p), "");
        EXPECT_EQ(
            refusal_of(70, built, p, 12040).find(std::string("--precision ") + name_of(p) + ": the Tesla of rank 3"),
            0u);
    }
    const std::string without = refusal_of(70, {80, 90}, Precision::bf16);
    EXPECT_EQ(without.find("--precision"), std::string::npos) << "another precision would not help: " << without;
    for (const char* words : {"the Tesla of rank 3", "7.0", "CUDA 12, cuDNN 9.10 and CUDA_ARCHS=70"})
        EXPECT_NE(without.find(words), std::string::npos) << without;
    EXPECT_EQ(refusal_of(100, built, Precision::bf16), "");
    EXPECT_NE(refusal_of(100, built, Precision::bf16, 12040).find("CUDA 12.4 has no code; build with CUDA 12.8"),
              std::string::npos);
}

// From NVIDIA's support matrices.
TEST(CudaDeviceChoice, CudnnHasCodeForSomeGpusOnly) {
    for (const int capability : {60, 61, 70}) {
        EXPECT_TRUE(is_run_by(91002, 12040, capability)) << capability;
        EXPECT_FALSE(is_run_by(91100, 12040, capability)) << capability;
        EXPECT_FALSE(is_run_by(91002, 13000, capability)) << capability;
    }
    for (const int capability : {75, 80, 90, 100}) EXPECT_TRUE(is_run_by(91900, 13000, capability)) << capability;
    for (const int capability : {100, 120}) {
        EXPECT_FALSE(is_run_by(91002, 12060, capability)) << capability;
        EXPECT_TRUE(is_run_by(91002, 12080, capability)) << capability;
    }
}

// Seen with make test-cuda12 and cuDNN 9.10.2, 9.11.0, 9.12.0, 9.13.1 and 9.19.0.
TEST(CudaDeviceChoice, AnA100NeedsANewerCudnnForF16) {
    EXPECT_THROW(check_f16(Precision::f16, 91002, 80, "--chip a100"), Error);
    for (const Precision p : {Precision::f32, Precision::bf16}) EXPECT_NO_THROW(check_f16(p, 91002, 80, "an A100"));
    EXPECT_NO_THROW(check_f16(Precision::f16, 91100, 80, "an A100"));
    for (const int capability : {60, 70, 75, 89, 90})
        EXPECT_NO_THROW(check_f16(Precision::f16, 91002, capability, "another GPU"));
}

TEST(CudaDeviceChoice, TwoRanksOnOneAreFoundByUuid) {
    EXPECT_EQ(shared_device({"a 1", "a 2", "b 1"}), "") << "another host's device is another";
    const std::string text = shared_device({"a 1", "a 2", "a 1"});
    for (const char* word : {"ranks 0 and 2", "on a", "--share-device"})
        EXPECT_NE(text.find(word), std::string::npos) << text;
}

}  // namespace
}  // namespace convoy::test
