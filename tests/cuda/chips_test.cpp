// GPUs that a dry run knows, compared with cuDNN's description of them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/chips.h"
#include "backend/cuda/chips.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda_queries.h"

namespace convoy::test {
namespace {

using namespace cuda;

TEST(CudaChips, DryRunsAndCudnnKnowTheSame) {
    for (const Chip& c : known_chips) {
        const auto described = nlohmann::json::parse(chip_description(c.name));
        EXPECT_EQ(described["totalGlobalMem"].get<size_t>(), c.memory) << c.name;
        EXPECT_EQ(described["deviceName"].get<std::string>(), c.title) << c.name;
        EXPECT_EQ(described["multiProcessorCount"].get<int>(), c.multiprocessors) << c.name;
        EXPECT_EQ(described["deviceVer"].get<int>(), 10 * c.capability) << c.name;
    }
}

/// Removes fields that differ between two boards of a kind, or with installed software. A driver
/// keeps some of the published memory for itself, so that is compared separately.
nlohmann::json without_places(nlohmann::json j) {
    for (const char* name : {"pciDeviceId", "cudaDeviceId", "driverVer", "totalGlobalMem"}) j.erase(name);
    return j;
}

// Prints the description of a machine's chip, to be put into chips.cpp.
TEST(CudaChips, AKnownChipIsDescribedAsCudnnDoes) {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    const std::string text = Cudnn::description(0);
    std::printf("device properties: %s\n", text.c_str());
    const auto said = nlohmann::json::parse(text);
    cudaDeviceProp p{};
    ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
    EXPECT_EQ(said["deviceName"].get<std::string>(), p.name);
    EXPECT_EQ(said["totalGlobalMem"].get<size_t>(), p.totalGlobalMem);
    for (const Chip& c : known_chips)
        if (said["deviceName"] == c.title) {
            EXPECT_NEAR(double(p.totalGlobalMem), double(c.memory), 0x1p30) << "bytes; more than 1 GiB apart";
            EXPECT_EQ(without_places(said), without_places(nlohmann::json::parse(chip_description(c.name))));
        }
}

}  // namespace
}  // namespace convoy::test
