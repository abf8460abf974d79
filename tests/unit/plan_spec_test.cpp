// Specs of the plans that are requested from cuDNN for a batch norm.
#include "backend/gpu/plan_spec.h"

#include <gtest/gtest.h>

namespace convoy::test {
namespace {

using namespace cuda;

// No engine can derive a ReLU's mask from its output, which a residual makes necessary.
TEST(PlanSpecs, AReluIsInTheGradientOnlyWithoutAResidual) {
    const Shape shape{4, 8, 8, 16};
    for (const bool relu : {false, true})
        for (const bool residual : {false, true}) {
            BatchNorm op{};
            op.act = relu ? Activation::relu : Activation::identity;
            op.residual = residual ? 3 : none;
            const PlanSpec forward = norm_spec(PlanSpec::norm, op, shape, DType::bf16),
                           gradient = norm_spec(PlanSpec::norm_gradient, op, shape, DType::bf16);
            EXPECT_EQ(forward.relu, relu);
            EXPECT_EQ(forward.add, residual);
            EXPECT_EQ(gradient.relu, relu && !residual);
            EXPECT_FALSE(gradient.add);
        }
}

}  // namespace
}  // namespace convoy::test
