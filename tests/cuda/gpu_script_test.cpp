// gpu.sh, gpu_slot.sh and the bundle that takes them to other machines: tests of what can be
// checked here.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "backend/cuda_queries.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Counts tests of this program that match a part of a filter.
int tests_of(const std::string& pattern) {
    int found = 0;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i)
        for (int j = 0; j < all.GetTestSuite(i)->total_test_count(); ++j) {
            const testing::TestInfo& test = *all.GetTestSuite(i)->GetTestInfo(j);
            const std::string name = std::string(test.test_suite_name()) + "." + test.name();
            found += fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
        }
    return found;
}
/// Expects tests for each part of a filter. Returns the number of parts.
int expect_tests_of_each_part(const std::string& filter) {
    std::istringstream list(filter);
    int parts = 0;
    for (std::string part; std::getline(list, part, ':'); ++parts) EXPECT_GT(tests_of(part), 0) << part;
    return parts;
}

void stand_in(const std::string& path, const std::string& body) {
    write_file(path, "#!/bin/bash\n" + body + "\n");
    ASSERT_EQ(run("chmod +x " + path).code, 0);
}

TEST(CudaGpuScript, NamesTestsThatThereAre) {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    const std::string script = read_file("tests/cuda/gpu.sh");
    const std::regex look("look \"\\$tool\" ([a-z]+) '([^']+)'");
    std::vector<std::string> subjects;
    for (std::sregex_iterator at(script.begin(), script.end(), look), end; at != end; ++at) {
        subjects.push_back((*at)[1]);
        EXPECT_GT(expect_tests_of_each_part((*at)[2]), 0);
    }
    EXPECT_EQ(subjects, (std::vector<std::string>{"step", "norms", "pooling", "images", "muon"}));
}

// Stand-ins replace the programs that the stages start: Convoy, its tests, which write down what
// they are asked to run, and Python.
TEST(CudaGpuScript, StagesOfTheSlotNameTestsThatThereAre) {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    const TempDir dir;
    stand_in(dir.path("convoy"), "echo 'gpu          available'");
    stand_in(dir.path("convoy_tests"), "echo \"${2#--gtest_filter=}\" >>" + dir.path("filters"));
    const Finished f = run("CONVOY_HOST_LIBRARY_PATH= OUT=" + dir.path("out") + " BUILD=" + dir.path() +
                           " PYTHON=true bash tests/gpu_slot.sh A");
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, " 0 "), count(f.out, "\n") - 1) << "all but the race check run: " << f.out;
    std::istringstream filters(read_file(dir.path("filters")));
    int parts = 0;
    for (std::string filter; std::getline(filters, filter);) parts += expect_tests_of_each_part(filter);
    EXPECT_GT(parts, 20);
}

// pip lays out the wheels that PyTorch needs like this: one folder per library, or one for a CUDA
// version.
TEST(CudaGpuScript, ABundleFindsTheLibrariesOfPythonsWheels) {
    const TempDir dir;
    for (const char* wheel : {"cudnn", "nccl", "cu13"})
        std::filesystem::create_directories(dir.path(std::string("site/nvidia/") + wheel + "/lib"));
    std::filesystem::create_directories(dir.path("build"));
    stand_in(dir.path("build/convoy"), "echo \":$LD_LIBRARY_PATH:\"");
    stand_in(dir.path("build/ip"), "exit 1");  // python3 then brings the network interface up
    for (const char* module : {"nvidia/__init__", "fcntl", "socket", "struct"})
        write_file(dir.path(std::string("here/") + module + ".py"), "open('" + dir.path("ran") + "', 'w')\n");
    const Finished f =
        run("cp tests/cuda/bundle_run.sh " + dir.path("run") + " && cd " + dir.path("here") +
            " && PYTHONPATH=" + dir.path("site") + " LD_LIBRARY_PATH=/theirs bash " + dir.path("run") + " info");
    ASSERT_EQ("", failure(f));
    for (const char* wheel : {"cudnn", "nccl", "cu13"})
        EXPECT_EQ(count(f.out, ":" + dir.path(std::string("site/nvidia/") + wheel + "/lib") + ":"), 1) << f.out;
    EXPECT_EQ(f.out.find(":" + dir.path("lib") + ":"), 0u) << "the bundle's own come first: " << f.out;
    EXPECT_NE(f.out.find(":/theirs:"), std::string::npos) << f.out;
    EXPECT_FALSE(std::filesystem::exists(dir.path("ran"))) << "a module of the current folder was imported";
}

TEST(CudaGpuScript, TheSlotIsRehearsed) {
    const std::filesystem::path build = std::filesystem::path(sibling("convoy")).parent_path();
    if (!is_emulated()) GTEST_SKIP() << "the emulated device's program does this";
    const Finished f =
        run(with_limit("env BUILD=" + build.parent_path().string() + " bash tests/cuda/slot_rehearsal.sh", 2400));
    if (f.code == 77) GTEST_SKIP() << f.out;
    EXPECT_EQ(f.code, 0) << f.out << f.err;
}

}  // namespace
}  // namespace convoy::test
