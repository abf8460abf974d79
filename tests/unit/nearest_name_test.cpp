// Suggests the name that a user may have meant.
#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace convoy::test {
namespace {

TEST(NearestName, IsAnAbbreviationOrFewLettersAway) {
    const std::vector<std::string> known = {"batch-size", "seed", "lr", "epochs"};
    EXPECT_EQ(nearest_name("ba", known), "batch-size");
    EXPECT_EQ(nearest_name("batchsize", known), "batch-size");
    EXPECT_EQ(nearest_name("sede", known), "seed") << "two letters changed";
    EXPECT_EQ(nearest_name("sed", known), "seed");
    EXPECT_EQ(nearest_name("lt", known), "") << "of two letters none may be wrong";
    for (const char* name : {"b", "s", "", "x", "momentum"}) EXPECT_EQ(nearest_name(name, known), "") << name;
    for (const char* name : {"Batch_Size", "BATCHSIZE", "--batch-size"})
        EXPECT_EQ(nearest_name(name, known), "batch-size") << "neither case nor dashes matter";
    EXPECT_EQ(nearest_name("trian", {"report", "train", "plot"}), "train");
    EXPECT_EQ(unknown_choice("Seed", {"seed", "lr"}, "seed or lr"), ", did you mean seed? else choose seed or lr");
    EXPECT_EQ(unknown_choice("momentum", {"seed", "lr"}, "seed or lr"), "; choose seed or lr");
    EXPECT_EQ(did_you_mean("epoch", known, "see --help", "--"), ", did you mean --epochs?");
    EXPECT_EQ(did_you_mean("momentum", known, "see --help", "--"), "; see --help");
}

}  // namespace
}  // namespace convoy::test
