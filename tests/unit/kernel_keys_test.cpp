// The names under which measured times of our kernels are kept.
#include <gtest/gtest.h>

#include <set>

#include "backend/gpu/algorithms.h"

namespace convoy::test {
namespace {

using namespace cuda;

// Two different works with one key would share one time.
TEST(KernelKeys, EachWorkHasItsOwn) {
    const Tensor x{nullptr, {4, 8, 8, 16}, DType::bf16}, other{nullptr, {4, 8, 8, 16}, DType::f16};
    const Tensor wide{nullptr, {4, 8, 8, 16}, DType::bf16, 8};
    std::set<std::string> keys;
    size_t specs = 0;
    for (const int kind : {0, 1, 2, 3, 4, 5, 6})
        for (const Tensor& t : {x, other})
            for (const auto act : {Activation::identity, Activation::relu})
                for (const bool to_x : {false, true})
                    for (const int residual : {0, 1, 2, 3, 4}) {
                        KernelSpec s{.kind = KernelSpec::Kind(kind), .x = t, .act = act, .accumulate_x = to_x};
                        if (residual > 0) s.residual = residual > 2 ? wide : x;
                        s.accumulate_residual = residual % 2 == 1;
                        keys.insert(s.key());
                        ++specs;
                    }
    EXPECT_EQ(keys.size(), specs);
}

}  // namespace
}  // namespace convoy::test
