// Weight gradients at the same time as data gradients: the same bits as one after the other, in
// every order that a device may take. Skipped without a device.
//
// Mistakes that these tests were seen to find (2026-11-25): the side stream does not wait for the
// main one; the main one does not wait for the side one; both branches share a workspace; an
// operand's part is looked up in the workspace of the branch that reads it; a step is not captured
// again after the side branch's workspace moved.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "backend/cuda_queries.h"
#include "backend/gpu/algorithms.h"
#include "tests/cuda/graphs.h"
#include "tests/support/cluster.h"
#include "tests/support/step_runner.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

using namespace cuda;

struct Trained {
    std::vector<double> losses;
    Floats weights, running, gradients;
    int pairs = 0;       ///< number of gradients that ran side by side
    int with_norms = 0;  ///< number of those whose plans do parts of a batch norm
};

/// Trains `steps` steps: the first is eager, the second is captured if capturing is on, later ones
/// are replayed.
Trained train(const Graph& graph, int batch, BackendOptions options, int steps = 4) {
    const std::unique_ptr<Backend> backend = make_backend("cuda", options, test_comm());
    StepRunner runner(*backend, graph, batch);
    Trained t;
    for (int step = 0; step < steps; ++step) t.losses.push_back(runner.step().loss);
    t.weights = runner.weights(), t.running = runner.running(), t.gradients = runner.gradients();
    for (const OpAlgorithm& algorithm : static_cast<const GpuAlgorithms&>(runner.algorithms()).per_op) {
        const GemmAlgorithm& p = algorithm.gemm;
        t.pairs += p.side_by_side;
        t.with_norms += p.side_by_side && p.weight_gradient->normalise && p.data_gradient->statistics;
    }
    return t;
}

void expect_equal(const Trained& a, const Trained& b, const std::string& what) {
    EXPECT_EQ(a.losses, b.losses) << what;
    EXPECT_EQ(a.weights, b.weights) << what;
    EXPECT_EQ(a.running, b.running) << what;
    EXPECT_EQ(a.gradients, b.gradients) << what;
}

class CudaBranches : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    }
    static Trained same_as_in_turn(const Graph& g, int batch, Precision p, NormBy by) {
        BackendOptions options;
        options.precision = p;
        options.norm_by = by;
        const Trained captured = train(g, batch, options);
        EXPECT_GT(captured.pairs, 1);
        options.capture = false;
        expect_equal(train(g, batch, options), captured, "eager");
        options.one_stream = true;
        const Trained in_turn = train(g, batch, options);
        EXPECT_EQ(in_turn.pairs, 0);
        expect_equal(in_turn, captured, "one stream");
        return captured;
    }
};

TEST_F(CudaBranches, AreTheSameBitsAsOneStream) {
    same_as_in_turn(cuda_graph("mnist-conv", 28, 1, 10, Precision::f32), 5, Precision::f32, NormBy::kernels);
    same_as_in_turn(cuda_graph("airbench94", 32, 3, 10, Precision::bf16), 3, Precision::bf16, NormBy::kernels);
    same_as_in_turn(cuda_graph("airbench94", 32, 3, 10, Precision::f16), 3, Precision::f16, NormBy::plans);
}

// A weight gradient normalises its input with vectors that the forward pass saved. Meanwhile the
// data gradient writes the sums that the norm's gradient needs.
TEST_F(CudaBranches, AreTheSameBitsWithNormsInConvolutions) {
    GraphBuilder builder("norms", 8, 8, 3, 10);
    ValueId x = builder.input();
    for (const char* name : {"a", "b", "c"})
        x = builder.relu(
            builder.batch_norm(std::string(name) + ".bn", builder.conv(name, x, 24, 3, 1, 1, kaiming_fan_out(3, 24))));
    const Graph g = with_precision(fuse(builder.finish(builder.linear("fc", x, 10), 0)), Precision::f16);
    EXPECT_EQ(same_as_in_turn(g, 4, Precision::f16, NormBy::convolutions).with_norms, 2);
}

/// Builds two convolutions and a linear layer. The weight gradients of the last two, in f16, lie in
/// the gradients' workspace and grow with `channels`; nothing in the main workspace does.
Graph two_convolutions(int channels) {
    GraphBuilder builder("two", 4, 4, 3, 10);
    const ValueId a = builder.conv("a", builder.input(), 8, 3, 1, 1, kaiming_fan_out(3, 8)),
                  b = builder.conv("b", a, channels, 3, 1, 1, kaiming_fan_out(3, channels));
    return with_precision(fuse(builder.finish(builder.linear("fc", b, 10), 0)), Precision::f16);
}

// The second program needs more of that workspace than the first, which was captured before.
TEST_F(CudaBranches, AStepIsCapturedAnewAfterTheirWorkspaceGrew) {
    const Graph small = two_convolutions(8), large = two_convolutions(64);
    BackendOptions options;
    options.precision = Precision::f16;
    const Trained alone = train(small, 2, options, 6);
    const std::unique_ptr<Backend> backend = make_backend("cuda", options, test_comm());
    StepRunner first(*backend, small, 2);
    std::vector<double> losses;
    for (int step = 0; step < 3; ++step) losses.push_back(first.step().loss);
    StepRunner second(*backend, large, 2);
    for (int step = 0; step < 2; ++step) second.step();
    for (int step = 0; step < 3; ++step) losses.push_back(first.step().loss);
    EXPECT_EQ(losses, alone.losses);
    EXPECT_EQ(first.weights(), alone.weights);
}

/// Returns every bit that a training computed, as text.
std::string text_of(const Trained& t) {
    std::string text;
    uint64_t hash = 1;
    for (const Floats* floats : {&t.weights, &t.gradients})
        for (const float f : *floats) {
            uint32_t bits = 0;
            std::memcpy(&bits, &f, sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3;
        }
    for (const double loss : t.losses) text += std::to_string(loss) + " ";
    return text + std::to_string(hash) + ";";
}

std::string trained_by_mnist_conv(bool one_stream) {
    std::string text;
    for (const Precision p : {Precision::f32, Precision::f16})
        for (const bool capture : {true, false}) {
            BackendOptions options;
            options.precision = p;
            options.capture = capture;
            options.one_stream = one_stream;
            text += text_of(train(cuda_graph("mnist-conv", 28, 1, 10, p), 3, options, 3));
        }
    return text;
}

// The next test starts this one.
TEST_F(CudaBranches, DISABLED_Train) { std::fprintf(stderr, "seen:%s\n", trained_by_mnist_conv(false).c_str()); }

TEST_F(CudaBranches, AreTheSameBitsInEveryOrder) {
    if (!is_emulated()) GTEST_SKIP() << "a GPU does not choose its order so that faults show";
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string expected = "seen:" + trained_by_mnist_conv(true) + "\n";
    for (const std::string order : {"compute", "communication", "1", "2", "3"}) {
        const Finished f =
            run(with_limit("env EMULATED_ORDER=" + order + " " + self +
                               " --gtest_also_run_disabled_tests --gtest_filter=CudaBranches.DISABLED_Train",
                           60));
        EXPECT_EQ(f.code, 0) << order << f.err << f.out;
        EXPECT_NE(f.err.find(expected), std::string::npos) << order << ": " << f.err << expected;
    }
}

}  // namespace
}  // namespace convoy::test
