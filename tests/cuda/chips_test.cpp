// GPUs that a dry run knows, against what cuDNN is told of them.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/chips.h"
#include "backend/cuda/chips.h"
#include "backend/cuda_queries.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using namespace cuda;

TEST(CudaChips, DryRunsAndCudnnKnowTheSame) {
    for (const Chip& c : known_chips) {
        const auto described = nlohmann::json::parse(chip_description(c.name));
        EXPECT_EQ(described["totalGlobalMem"].get<size_t>(), c.memory) << c.name;
        EXPECT_EQ(described["deviceName"].get<std::string>(), c.title) << c.name;
        EXPECT_EQ(described["multiProcessorCount"].get<int>(), c.multiprocessors) << c.name;
    }
}

/// cuDNN's own text of a device that is made known to it by an attribute; empty if it takes that
/// not.
std::string description(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                        const void* value) {
    cudnnBackendDescriptor_t d = nullptr;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) != CUDNN_STATUS_SUCCESS) return "";
    cudnnBackendSetAttribute(d, name, type, count, value);
    cudnnBackendFinalize(d);
    std::string text;
    const auto read = [&](int64_t room) {
        int64_t size = 0;
        cudnnBackendGetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, room, &size,
                                 room > 0 ? text.data() : nullptr);
        return size;
    };
    text.resize(size_t(read(0)));
    read(int64_t(text.size()));
    cudnnBackendDestroyDescriptor(d);
    return text.substr(0, text.find('\0'));
}

TEST(CudaChips, CudnnReadsTheirDescriptionsWhole) {
    if (is_emulated()) GTEST_SKIP() << "this needs cuDNN itself";
    load_driver_or_stub();
    for (const Chip& c : known_chips) {
        const std::string ours = chip_description(c.name);
        EXPECT_EQ(nlohmann::json::parse(description(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                                    int64_t(ours.size()), ours.data())),
                  nlohmann::json::parse(ours));
    }
}

/// What differs between two boards of a kind, or by what is installed.
nlohmann::json without_places(nlohmann::json j) {
    for (const char* name : {"pciDeviceId", "cudaDeviceId", "driverVer"}) j.erase(name);
    return j;
}

// Prints what a machine with the chip says, to be put into chips.cpp.
TEST(CudaChips, AKnownChipIsDescribedAsCudnnDoes) {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    if (is_emulated()) GTEST_SKIP() << "cuDNN does not know this device";
    const int32_t device = 0;
    const std::string text = description(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device);
    std::printf("device properties: %s\n", text.c_str());
    const auto said = nlohmann::json::parse(text);
    cudaDeviceProp p{};
    ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
    EXPECT_EQ(said["deviceName"].get<std::string>(), p.name);
    EXPECT_EQ(said["totalGlobalMem"].get<size_t>(), p.totalGlobalMem);
    for (const Chip& c : known_chips)
        if (said["deviceName"] == c.title) {
            EXPECT_EQ(without_places(said), without_places(nlohmann::json::parse(chip_description(c.name))));
        }
}

}  // namespace
}  // namespace convoy::test
