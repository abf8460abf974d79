// Graphs requested from cuDNN for each kind of plan, operand by operand: they equal those of
// graphs.txt, which a person has checked. Also the engines that it names for exact f32. No GPU is
// needed.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "backend/cuda/chips.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/plan_table.h"
#include "backend/cuda/plans.h"
#include "tests/cuda/graphs.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using namespace cuda;

/// Returns a spec whose sizes all differ, so that none can be mistaken for another.
PlanSpec spec_of(PlanSpec::Kind kind, DType type) {
    PlanSpec s{kind, {2, 9, 7, 24}, {2, 5, 4, 40}, 3, 2, 1, type};
    if (kind == PlanSpec::norm || kind == PlanSpec::norm_gradient) {
        s.y = s.x;
        s.epsilon = 0.25f;  // exact in text
        s.momentum = 0.125f;
    }
    return s;
}

/// Returns one spec of every kind and fusion.
std::vector<PlanSpec> specs() {
    std::vector<PlanSpec> all;
    const auto add = [&](PlanSpec::Kind kind, DType type, auto change) {
        all.push_back(spec_of(kind, type));
        change(all.back());
    };
    const auto plain = [](PlanSpec&) {};
    add(PlanSpec::conv, DType::f32, [](PlanSpec& s) { s.exact = true; });
    add(PlanSpec::conv, DType::bf16, plain);
    add(PlanSpec::conv, DType::f16, [](PlanSpec& s) { s.statistics = true; });
    add(PlanSpec::conv, DType::f16, [](PlanSpec& s) { s.statistics = s.normalise = true; });
    add(PlanSpec::conv_data_gradient, DType::f16, plain);
    add(PlanSpec::conv_data_gradient, DType::f16, [](PlanSpec& s) { s.add = true; });
    add(PlanSpec::conv_data_gradient, DType::f16, [](PlanSpec& s) { s.statistics = true; });
    add(PlanSpec::conv_weight_gradient, DType::f16, plain);
    add(PlanSpec::conv_weight_gradient, DType::f16, [](PlanSpec& s) { s.normalise = true; });
    add(PlanSpec::norm, DType::bf16, plain);
    add(PlanSpec::norm, DType::bf16, [](PlanSpec& s) { s.relu = true; });
    add(PlanSpec::norm, DType::bf16, [](PlanSpec& s) { s.add = s.relu = true; });
    add(PlanSpec::norm_gradient, DType::bf16, plain);
    add(PlanSpec::norm_gradient, DType::bf16, [](PlanSpec& s) { s.relu = true; });
    return all;
}

std::string graph_of(const PlanSpec& spec) {
    load_driver_or_stub();
    const Cudnn cudnn = Cudnn::of_chip(chip_description("h100"));
    return CudnnGraph(cudnn, spec).text();
}

/// Returns the sections of a file by the plan's key in brackets; comments are for the reader.
std::map<std::string, std::string> sections(const std::string& text) {
    std::map<std::string, std::string> all;
    std::istringstream lines(text);
    std::string key;
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("["))
            key = line.substr(1, line.size() - 2);
        else if (!line.empty() && !line.starts_with("#"))
            all[key] += line + "\n";
    return all;
}

TEST(CudaGraphs, AskCudnnForWhatTheFileSays) {
    const std::map<std::string, std::string> expected = sections(read_file("tests/cuda/graphs.txt"));
    EXPECT_EQ(expected.size(), specs().size()) << "one section for each kind";
    for (const PlanSpec& spec : specs()) {
        const auto said = expected.find(spec.key());
        EXPECT_EQ(graph_of(spec), said == expected.end() ? "" : said->second) << "[" << spec.key() << "]";
    }
}

/// Returns the bytes of the tensor that a line describes.
size_t bytes_of(const std::string& line) {
    size_t bytes = line.find(" FLOAT ") != std::string::npos ? 4 : 2;
    std::istringstream dims(line.substr(line.find('[') + 1));
    for (char separator = ','; separator == ',';) {
        size_t n = 0;
        dims >> n >> separator;
        bytes *= n;
    }
    return bytes;
}

// Plans run with the operands that operands_of() names, in memory of operand_bytes().
TEST(CudaGraphs, HaveTheOperandsThatPlansAreRunWith) {
    for (const PlanSpec& spec : specs()) {
        std::map<int, size_t> bytes, expected;
        std::istringstream lines(graph_of(spec));
        for (std::string line; std::getline(lines, line);)
            if (const size_t slot = line.find(" slot "); slot != std::string::npos)
                bytes[std::stoi(line.substr(slot + 6))] = bytes_of(line);
        for (const Slot slot : operands_of(spec)) expected[int(slot)] = operand_bytes(spec, slot);
        EXPECT_EQ(bytes, expected) << spec.key();
    }
}

// cuDNN lists engines with tensor cores first, which exact f32 does not use. They are left out, so
// that they do not use up the tries.
TEST(CudaGraphs, ForExactF32SeveralEnginesAreTried) {
    load_driver_or_stub();
    const Cudnn cudnn = Cudnn::of_chip(chip_description("h100"));
    size_t specs = 0, alone = 0;
    for (const NamedPlan& plan :
         plans_of(cuda_graph("resnet50", 224, 3, 1000, Precision::f32), 256, {Precision::f32})) {
        if (plan.spec.is_norm() || plan.spec.add) continue;  // these are compiled for the device
        int good = 0;
        for (const auto& [candidate, attempt] : build_candidates(cudnn, plan.spec, "", false, {}).attempts)
            good += attempt.built;
        ++specs;
        alone += good < 2;
        EXPECT_GE(good, 1) << plan.spec.key();
    }
    EXPECT_GT(specs, 60u);
    EXPECT_EQ(alone, 0u) << "of " << specs << " specs";
}

}  // namespace
}  // namespace convoy::test
