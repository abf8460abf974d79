// .ci/deps.sh on machines that this one is not: its table of what is needed, row by row. Run from
// the repository's root.
#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// What `deps.sh info` prints for a machine whose toolkit is in `cuda` and whose cudnn-frontend is
/// nowhere.
std::string info_with_toolkit_in(const std::string& cuda) {
    return run("CUDA='" + cuda + "' CUDNN_FRONTEND=/nonexistent bash .ci/deps.sh info").out;
}

bool misses(const std::string& info, const std::string& name) {
    return info.find("\n" + name + std::string(25 - name.size(), ' ') + "missing") != std::string::npos;
}

TEST(Deps, WithoutAToolkitNothingOfCudaIsMissing) {
    if (run("command -v bash g++ mpicxx").code != 0) GTEST_SKIP() << "needs a development environment";
    for (const char* nowhere : {"", "/nonexistent"}) {
        const std::string info = info_with_toolkit_in(nowhere);
        EXPECT_NE(info.find("only the CPU backend"), std::string::npos) << info;
        EXPECT_FALSE(misses(info, "cudnn-frontend")) << info;
        EXPECT_FALSE(misses(info, "Boost.Context")) << info;
    }
}

TEST(Deps, WithAToolkitItsHeadersAreWanted) {
    if (run("command -v bash g++ mpicxx").code != 0) GTEST_SKIP() << "needs a development environment";
    const TempDir dir;
    write_file(dir.path("bin/nvcc"), "#!/bin/sh\n");
    ASSERT_EQ(run("chmod +x " + dir.path("bin/nvcc")).code, 0);
    EXPECT_TRUE(misses(info_with_toolkit_in(dir.path()), "cudnn-frontend"));
}

}  // namespace
}  // namespace convoy::test
