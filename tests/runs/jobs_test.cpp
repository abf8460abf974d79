// The job scripts: tests that need neither root nor a scheduler (the others are `make test-jobs`).
// Run from the repository's root.
#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

Finished scripts_test(const std::string& tests) {
    return run("cd tests/jobs && ${PYTHON:-/usr/bin/python3} -m unittest " + tests);
}

TEST(Jobs, ScriptsAndDirectives) {
    const Finished f = scripts_test("-k Text scripts_test");
    EXPECT_EQ(f.code, 0) << f.err;
    if (f.err.find("skipped") != std::string::npos)
        GTEST_SKIP() << "shellcheck is not installed; everything else about the scripts holds";
}

TEST(Jobs, WordsBeforeALaunch) {
    const Finished f = scripts_test("-k Words scripts_test");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST(Jobs, AreSubmittedAsTheSiteFileSays) {
    const Finished f = scripts_test("submit_test");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST(Jobs, WriteThroughNoLinkOfOthers) {
    const Finished f = scripts_test("shared_folders_test.SharedFolders");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST(Jobs, NothingOfAnOuterJobReachesASubmission) {
    const Finished f = scripts_test("outer_job_test");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST(Jobs, TheScalingMatrix) {
    const Finished f = run("export CONVOY=" + sibling("convoy") + "; " +
                           "cd tests/jobs && ${PYTHON:-/usr/bin/python3} -m unittest -k Scaling scaling_test");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST(Jobs, TrainLikePytorchsScript) {
    const Finished f = scripts_test("-k Train train_test");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST(Jobs, AContainerStaysUp) {
    const Finished f = scripts_test("-k Container train_test");
    EXPECT_EQ(f.code, 0) << f.err;
}

}  // namespace
}  // namespace convoy::test
