// GPUs that need not be here.
#include "backend/chips.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/unit/usage_message.h"

namespace convoy::test {
namespace {

// NVIDIA's published figures: multiprocessors and GB of memory, of which a driver shows a little
// less or more.
TEST(Chips, HaveThePublishedSizes) {
    const std::map<std::string, std::tuple<int, double, int>> published = {
        {"p100", {56, 16, 60}},      {"p40", {30, 24, 61}},    {"v100", {80, 16, 70}},
        {"rtx2080ti", {68, 11, 75}}, {"a100", {108, 80, 80}},  {"l40s", {142, 48, 89}},
        {"h100", {132, 80, 90}},     {"h200", {132, 141, 90}}, {"b200", {148, 180, 100}}};
    EXPECT_EQ(std::size(known_chips), published.size());
    for (const Chip& c : known_chips) {
        const auto& [multiprocessors, gigabytes, capability] = published.at(c.name);
        EXPECT_EQ(c.multiprocessors, multiprocessors) << c.name;
        EXPECT_NEAR(double(c.memory) / 1e9, gigabytes, 0.07 * gigabytes) << c.name;
        EXPECT_EQ(c.capability, capability) << c.name;
    }
}

TEST(Chips, AnUnknownOneIsAnsweredWithAllNames) {
    const std::string said = message_of([] { find_chip("k80", "cpu"); });
    for (const char* words : {"--chip k80", "p100, p40, v100, rtx2080ti, a100, l40s, h100, h200, b200 or cpu"})
        EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_NE(message_of([] { find_chip("H-100"); }).find("did you mean h100?"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
