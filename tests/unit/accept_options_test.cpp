// Options of `convoy accept` that are refused: those without effect, and combinations that cannot
// be.
#include <gtest/gtest.h>

#include "cli/accept_options.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using Args = std::vector<std::string>;

std::string problem(const Args& args, const std::vector<std::string>& words) {
    return problem_of_error(Exit::usage, words, [&] { parse_accept(args); });
}

TEST(AcceptOptions, WhatHasNoEffectIsRefused) {
    const std::vector<std::pair<Args, std::string>> pointless = {{{"--minutes", "5"}, "endurance"},
                                                                 {{"--data", "x"}, "input"},
                                                                 {{"--fingerprints", "f"}, "bits"},
                                                                 {{"--save-fingerprint", "f"}, "bits"},
                                                                 {{"--cluster", "c"}, "sums or speed"}};
    for (const auto& [option, level] : pointless) {
        Args args = option;
        args.insert(args.end(), {"--only", "inventory"});
        EXPECT_EQ("", problem(args, {option[0] + ": has no effect without the level " + level, "--only inventory"}));
        EXPECT_NO_THROW(parse_accept(option)) << "without --only, all levels run that apply";
    }
    EXPECT_EQ("", problem({"--only", "inventory", "--level", "long"}, {"--level: has no effect"}));
    EXPECT_NO_THROW(parse_accept({"--only", "speed", "--cluster", "c", "--level", "long"}));
}

TEST(AcceptOptions, AnOptionIsNoFolderAndThereIsOneFolder) {
    EXPECT_EQ("", problem({"--output", "--overwrite"}, {"--output: its value is missing"}));
    EXPECT_EQ("", problem({"--output", "a", "--output", "b"}, {"--output: is given more than once"}));
    EXPECT_EQ("", problem({"--output=a", "--output", "a"}, {"--output: is given more than once"}));
    EXPECT_EQ("", problem({"--resume"}, {"--resume needs --output"}));
    EXPECT_EQ(parse_accept({"--output=--odd"}).output, "--odd");
}

TEST(AcceptOptions, LevelsAreThoseThatApply) {
    EXPECT_EQ(parse_accept({}).levels, Args({"inventory", "sums", "bits", "speed"}));
    EXPECT_EQ(parse_accept({"--data", "x", "--minutes", "1"}).levels,
              Args({"inventory", "sums", "bits", "speed", "input", "endurance"}));
    EXPECT_EQ(parse_accept({"--only", "speed,sums,speed"}).levels, Args({"speed", "sums"}));
}

}  // namespace
}  // namespace convoy::test
