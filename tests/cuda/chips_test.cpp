// GPUs that a dry run knows, against what cuDNN is told of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/chips.h"
#include "backend/cuda/chips.h"

namespace convoy::test {
namespace {

using namespace cuda;

TEST(CudaChips, DryRunsAndCudnnKnowTheSame) {
    for (const Chip& c : known_chips) {
        const auto described = nlohmann::json::parse(chip_description(c.name));
        EXPECT_EQ(described["totalGlobalMem"].get<size_t>(), c.memory) << c.name;
        EXPECT_EQ(described["deviceName"].get<std::string>(), c.title) << c.name;
    }
}

}  // namespace
}  // namespace convoy::test
