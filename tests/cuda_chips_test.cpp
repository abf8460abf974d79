// GPUs that a dry run knows, against what cuDNN is told of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/chips.h"
#include "backend/cuda/chips.h"

namespace convoy::test {
namespace {

TEST(CudaChips, DryRunsAndCudnnKnowTheSame) {
    std::vector<std::string> names;
    for (const Chip& c : known_chips) {
        names.push_back(c.name);
        const auto described = nlohmann::json::parse(chip_description(c.name));
        EXPECT_EQ(described["totalGlobalMem"].get<size_t>(), c.memory) << c.name;
        EXPECT_EQ(described["deviceName"].get<std::string>(), c.title) << c.name;
    }
    EXPECT_EQ(names, chip_names());
}

}  // namespace
}  // namespace convoy::test
