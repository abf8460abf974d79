// `convoy info --plans MODEL --run`, on the emulated device: its third engine computes a plan with
// loops, its second one runs never, or ends the process.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "backend/cuda_queries.h"
#include "backend/gpu/plan_list.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

using namespace cuda;

class CudaPlanProbe : public testing::Test {
protected:
    void SetUp() override {
        if (!is_emulated()) GTEST_SKIP() << "this needs the emulated device";
    }
    Finished probe(const std::string& options, const std::string& variables = "") const {
        return run(with_limit(
            "env XDG_CACHE_HOME=" + dir_.path() + " " + variables + " " + sibling("convoy") + " info --run " + options,
            100));
    }
    static std::vector<std::string> lines_of(const std::string& text) {
        std::istringstream in(text);
        std::vector<std::string> lines;
        for (std::string line; std::getline(in, line);) lines.push_back(line);
        return lines;
    }
    static std::string family_of(const std::string& line) {
        std::smatch found;
        return std::regex_search(line, found, std::regex("^(.*?) n[0-9]")) ? found[1].str() : line;
    }
    const TempDir dir_;
};

const std::string resnet = "--plans resnet18 --image-size 16x16x3 --batch-per-rank 2";
const std::regex right(
    "^.* loops: [0-9.]+ us, [0-9.]+ TFLOP/s, [0-9]+ GB/s, 0.0 MiB workspace, error ([0-9.e+-]+) of [a-z_]+, "
    "replays alike, built without a handle$");

// The bound is twice the rounding of stored values.
TEST_F(CudaPlanProbe, ShowsEveryFamilyAndThatItIsRight) {
    const std::map<std::string, double> bounds = {{"f16", 2.0 / 2048}, {"bf16", 2.0 / 256}, {"f32", 1e-5}};
    for (const auto& [precision, bound] : bounds) {
        const Finished f = probe(resnet + " --precision " + precision);
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(f.err, "");
        std::map<std::string, int> families;
        for (const std::string& line : lines_of(f.out)) {
            std::smatch found;
            EXPECT_TRUE(std::regex_match(line, found, right)) << line;
            if (found.empty()) continue;
            EXPECT_LE(std::stod(found[1]), bound) << line;
            EXPECT_LE(++families[family_of(line)], 2) << line;
        }
        EXPECT_EQ(families.size(), precision == "f16" ? 13u : precision == "bf16" ? 10u : 4u) << f.out;
        EXPECT_EQ(families.contains("conv-data-gradient f16 statistics"), precision == "f16");
    }
}

TEST_F(CudaPlanProbe, AnEngineThatFaultsCostsOneLine) {
    const std::string family = "conv-data-gradient f16 add";
    const std::vector<std::string> whole = lines_of(probe(resnet + " --precision f16").out);
    const Finished f = probe(resnet + " --precision f16", "EMULATED_FATAL_PLAN='" + family + " n2 16x16x64->16x16x64'");
    EXPECT_EQ(f.code, 1);
    EXPECT_EQ(f.err, "");
    const std::vector<std::string> lines = lines_of(f.out);
    ASSERT_EQ(lines.size(), whole.size()) << f.out;
    int lost = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
        EXPECT_EQ(lines[i].substr(0, 76), whole[i].substr(0, 76));
        if (std::regex_match(lines[i], right)) continue;
        ++lost;
        EXPECT_EQ(family_of(lines[i]), family);
        EXPECT_NE(lines[i].find(" broken ended its process: Killed"), std::string::npos) << lines[i];
    }
    EXPECT_EQ(lost, 1) << f.out;
    // A training leaves that engine out and says so; so does the next probe.
    const Finished next =
        probe(resnet + " --precision f16", "EMULATED_FATAL_PLAN='" + family + " n2 16x16x64->16x16x64'");
    EXPECT_EQ("", failure(next)) << next.out;
    EXPECT_EQ(count(next.out, "cuDNN's engine broken is not tried for '" + family), 1) << next.out;
    EXPECT_EQ(lines_of(next.out).size(), whole.size() + 1) << next.out;
}

TEST_F(CudaPlanProbe, AWrongElementIsFoundInEveryFamily) {
    const std::string size = " n2 8x8x128";
    const Finished f = probe(resnet + " --precision f16", "EMULATED_WRONG_PLAN='" + size + "'");
    EXPECT_EQ(f.code, 1);
    int wrong = 0;
    for (const std::string& line : lines_of(f.out)) {
        const bool marked = line.find(": WRONG, replays alike") != std::string::npos;
        EXPECT_EQ(marked, line.find(size) != std::string::npos) << line;
        wrong += marked;
    }
    EXPECT_GE(wrong, 7) << f.out;
}

TEST_F(CudaPlanProbe, PlansThatNeedAHandleAreShown) {
    const Finished f = probe("--plans mnist-conv --batch-per-rank 2", "EMULATED_CUDNN=bound-to-handles");
    EXPECT_EQ("", failure(f));
    EXPECT_GT(count(f.out, "\n"), 4) << f.out;
    EXPECT_EQ(count(f.out, ", built with a handle only\n"), count(f.out, "\n")) << f.out;
}

TEST_F(CudaPlanProbe, ALineCanBeRepeatedAlone) {
    const std::string model = "--plans mnist-conv --batch-per-rank 2";
    const std::vector<std::string> all = lines_of(probe(model).out);
    ASSERT_GT(all.size(), 2u);
    const Finished second = probe(model + " --run=2");
    EXPECT_EQ("", failure(second));
    EXPECT_EQ(count(second.out, "trying "), 3) << "the third engine runs: " << second.out;
    EXPECT_EQ(lines_of(second.out).back().substr(0, 76), all[1].substr(0, 76)) << second.out;
    EXPECT_EQ("", refusal(probe(model + " --run=99"), Exit::usage, {"--run=99", std::to_string(all.size())}));
}

TEST_F(CudaPlanProbe, MistakesAreRefused) {
    EXPECT_EQ("", refusal(probe(""), Exit::usage, {"--run", "--plans"}));
    EXPECT_EQ("", refusal(probe("--plans linear --chip h100"), Exit::usage, {"--chip h100", "--run"}));
    EXPECT_EQ("", refusal(probe("--plans lineal"), Exit::usage, {"lineal"}));
    EXPECT_EQ("", refusal(probe("--plans linear --run=x"), Exit::usage, {"--run"}));
    EXPECT_EQ("", refusal(probe("--plans linear", "EMULATED_GPUS=0"), Exit::usage, {"--run", "no GPU"}));
}

TEST(CudaPlanProbeAbsent, WithoutAGpuItIsRefused) {
    const std::string reason = cuda_unavailable();
    if (reason.empty()) GTEST_SKIP() << "there is a GPU";
    EXPECT_EQ("", refusal(convoy_alone("info --plans linear --run"), Exit::usage, {"--run: " + reason}));
}

}  // namespace
}  // namespace convoy::test
