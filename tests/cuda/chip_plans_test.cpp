// cuDNN's plans of ResNet-50 for each chip that is known, in the precision that it is best at. No
// GPU is needed.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include "backend/chips.h"
#include "backend/cuda/device.h"
#include "backend/cuda/plan_table.h"
#include "backend/cuda_queries.h"
#include "backend/gpu/precisions.h"
#include "tests/cuda/graphs.h"

namespace convoy::test {
namespace {

using namespace cuda;

class CudaChipPlans : public testing::TestWithParam<Chip> {};

bool is_supported(const Chip& chip) { return is_run_by(cudnnGetVersion(), CUDART_VERSION, chip.capability); }

// Convolutions that are not fused are precompiled. They have no fallback, so each must be built.
TEST_P(CudaChipPlans, EveryConvolutionOfResNet50IsBuilt) {
    const Chip& chip = GetParam();
    if (!is_supported(chip)) GTEST_SKIP() << "not by this cuDNN: make test-cuda12";
    const Precision p = usual_precision(chip.capability);
    std::vector<NamedPlan> plans;
    for (const NamedPlan& plan : plans_of(cuda_graph("resnet50", 224, 3, 1000, p), 64, {p}))
        if (const PlanSpec& s = plan.spec; !s.is_norm() && !s.add && !s.statistics && !s.normalise)
            plans.push_back(plan);
    EXPECT_GT(plans.size(), 60u);
    for (const PlanRow& row : plan_rows(plans, chip.name)) {
        EXPECT_EQ(row.state, PlanRow::built) << row.plan.spec.key();
        EXPECT_LT(row.workspace, chip.memory / 4) << row.plan.spec.key();
    }
}

TEST_P(CudaChipPlans, AreRefusedInOneLineWithoutThatCudnn) {
    const Chip& chip = GetParam();
    const Graph graph = cuda_graph("mnist-conv", 28, 1, 10, Precision::f32);
    std::string said;
    try {
        plan_table(graph, {.batch = 8}, chip.name);
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
        said = e.what();
    }
    EXPECT_EQ(said.empty(), is_supported(chip)) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    if (!said.empty()) {
        EXPECT_NE(said.find("CUDA 12"), std::string::npos) << said;
    }
}

INSTANTIATE_TEST_SUITE_P(All, CudaChipPlans, testing::ValuesIn(known_chips),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace convoy::test
