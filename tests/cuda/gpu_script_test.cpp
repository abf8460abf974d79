// gpu.sh, which runs on machines that a test of it does not: what can be seen of it elsewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "backend/cuda_queries.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

TEST(CudaGpuScript, NamesTestsThatThereAre) {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    const std::string script = read_file("tests/cuda/gpu.sh"), self = std::filesystem::read_symlink("/proc/self/exe");
    const std::regex look("look \"\\$tool\" ([a-z]+) '([^']+)'");
    std::vector<std::string> subjects;
    for (std::sregex_iterator at(script.begin(), script.end(), look), end; at != end; ++at) {
        subjects.push_back((*at)[1]);
        const Finished f = run(with_limit(self + " --gtest_list_tests --gtest_filter='" + (*at)[2].str() + "'", 60));
        EXPECT_GT(count(f.out, "\n  "), 0) << (*at)[0];
    }
    EXPECT_EQ(subjects, (std::vector<std::string>{"step", "norms", "pooling", "muon"}));
}

}  // namespace
}  // namespace convoy::test
