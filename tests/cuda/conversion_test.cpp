// Weight gradients in low precision, which one launch per bucket converts to f32. Skipped without a
// device.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda_queries.h"
#include "tests/cuda/graphs.h"
#include "tests/support/step_runner.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

constexpr size_t one_gradient = 1, all_gradients = size_t(1) << 30;  // least elements of a bucket

class CudaConversion : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    }
    static std::unique_ptr<Backend> backend_in(Precision p) {
        BackendOptions options;
        options.precision = p;
        options.norm_by = NormBy::kernels;
        return make_backend("cuda", options, test_comm());
    }
};

int conversions(const StepRunner& runner) {
    return int(std::count_if(runner.tape().begin(), runner.tape().end(),
                             [](const LaunchId& id) { return id.phase == LaunchPhase::conversion; }));
}

// airbench94 has seven convolutions, the first one frozen, and a linear layer.
TEST_F(CudaConversion, IsOneLaunchPerBucket) {
    const auto gpu = backend_in(Precision::bf16);
    const Graph g = cuda_graph("airbench94", 32, 3, 10, Precision::bf16);
    int weights = 0;
    for (const Param& p : g.params) weights += p.is_weight && p.has_gradient();
    EXPECT_EQ(conversions({*gpu, g, 2, {}, 0.05f, 5, one_gradient}), weights);
    EXPECT_EQ(conversions({*gpu, g, 2, {}, 0.05f, 5, all_gradients}), 1);
    const auto exact = backend_in(Precision::f32);
    EXPECT_EQ(conversions({*exact, cuda_graph("airbench94", 32, 3, 10, Precision::f32), 2}), 0);
}

// Eager, captured and replayed: four steps. The smallest buckets convert each gradient alone.
TEST_F(CudaConversion, GivesTheSameBitsForBucketsOfAnySize) {
    for (const Precision p : {Precision::bf16, Precision::f16}) {
        const Graph g = cuda_graph("mnist-conv", 28, 1, 10, p);
        Floats gradients, weights;
        for (const size_t bucket : {one_gradient, size_t(1) << 14, size_t(1) << 16, all_gradients}) {
            const auto gpu = backend_in(p);  // another one, because it keeps the loss scale
            StepRunner runner(*gpu, g, 3, {}, 0.05f, 5, bucket);
            runner.step();
            const Floats first = runner.gradients();
            for (int step = 1; step < 4; ++step) runner.step();
            if (bucket == one_gradient) {
                gradients = first;
                weights = runner.weights();
                EXPECT_GT(std::count_if(first.begin(), first.end(), [](float v) { return v != 0; }), 1000);
            }
            EXPECT_EQ(first, gradients) << bucket;
            EXPECT_EQ(runner.weights(), weights) << bucket;
        }
    }
}

// The search for the first NaN reads a gradient after the launch that writes it. Otherwise it would
// find the NaN of the step before, and name the wrong layer.
TEST_F(CudaConversion, AGradientIsProbedAfterIt) {
    const auto gpu = backend_in(Precision::bf16);
    const Graph g = cuda_graph("airbench94", 32, 3, 10, Precision::bf16);
    for (const size_t bucket : {one_gradient, size_t(1) << 16, all_gradients}) {
        const StepRunner runner(*gpu, g, 2, {}, 0.05f, 5, bucket);
        int probed = 0;
        size_t last = 0;
        for (const Probe& p : runner.probes()) {
            EXPECT_GE(p.after, last) << p.name << ": probes are in the order of the tape";
            last = p.after;
            const bool is_weight = std::any_of(g.params.begin(), g.params.end(), [&](const Param& w) {
                return w.is_weight && runner.state().gradients()[&w - g.params.data()].data == p.output.data;
            });
            if (!is_weight) continue;
            ++probed;
            // The last launch before the probe that belongs to no other op converts its bucket.
            const auto upto = runner.tape().begin() + int64_t(p.after);
            const auto written = std::find_if(std::make_reverse_iterator(upto), runner.tape().rend(),
                                              [](const LaunchId& id) { return id.phase == LaunchPhase::conversion; });
            const auto computed =
                std::find_if(std::make_reverse_iterator(upto), runner.tape().rend(), [&](const LaunchId& id) {
                    return id.phase == LaunchPhase::weight_gradient &&
                           p.name.starts_with(id.name.substr(id.name.rfind(' ') + 1));
                });
            ASSERT_NE(computed, runner.tape().rend()) << p.name;
            EXPECT_LT(written - runner.tape().rend(), computed - runner.tape().rend()) << p.name << " by " << bucket;
        }
        EXPECT_GT(probed, 5);
    }
}

}  // namespace
}  // namespace convoy::test
