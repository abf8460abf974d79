// make test-cuda12, where it cannot run.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

TEST(Cuda12, IsSkippedWithAWordWithoutRootOrNetwork) {
    TempDir dir;
    const std::string alone = ::geteuid() == 0 ? "unshare --net " : "";
    if (run(alone + "true").code != 0) GTEST_SKIP() << "needs the right to make a network namespace";
    const Finished f = run(alone + "env BUILD=" + dir.path("build") + " bash tests/cuda12.sh");
    EXPECT_EQ(f.code, 0) << f.out << f.err;
    for (const char* words : {"test-cuda12: skipped: needs ", "\n0 passed, 0 failed, 1 skipped\n"})
        EXPECT_NE(f.out.find(words), std::string::npos) << f.out << f.err;
}

}  // namespace
}  // namespace convoy::test
