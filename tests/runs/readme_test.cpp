// Every command of every README runs unchanged; readme_commands.py lists the exceptions and their
// reasons.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

TEST(Readme, CommandsRunAsWritten) {
    if (run("git ls-files --error-unmatch README.md").code != 0) GTEST_SKIP() << "no checkout";
    const std::string build = std::filesystem::path(sibling("convoy")).parent_path();
    const Finished f = run("${PYTHON:-/usr/bin/python3} -B tests/runs/readme_commands.py " + build);
    EXPECT_EQ(f.code, 0) << f.out << f.err;
}

}  // namespace
}  // namespace convoy::test
