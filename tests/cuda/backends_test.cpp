// Programs that share what a backend owns, and backends that share a device; skipped without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/workspace.h"
#include "backend/cuda_queries.h"
#include "tests/cuda/graphs.h"
#include "tests/support/cluster.h"
#include "tests/support/step_runner.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

using namespace cuda;

class CudaBackends : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    }
    static std::unique_ptr<Backend> backend(Precision p, bool capture) {
        BackendOptions o;
        o.precision = p;
        o.capture = capture;
        return make_backend("cuda", o, test_comm());
    }
    /// Returns the losses of `steps` steps.
    static std::vector<double> train(StepRunner& runner, int steps) {
        std::vector<double> losses;
        for (int i = 0; i < steps; ++i) losses.push_back(runner.step().loss);
        return losses;
    }
    static std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }
};

// The captured graph holds the address of a workspace that no longer exists.
TEST_F(CudaBackends, AStepIsCapturedAnewAfterTheWorkspaceGrew) {
    const Stream stream;
    constexpr size_t bytes = 4096;
    const DeviceMemory out(bytes);
    Workspace workspace;
    const Workspace::Part part = workspace.part(0, bytes);
    const Tape tape = {
        {{.name = "fill"},
         Resource::compute,
         [&] { check(cudaMemsetAsync(workspace.at(part), 7, bytes, stream.get()), "filling"); }},
        {{.name = "copy"}, Resource::compute, [&] {
             check(cudaMemcpyAsync(out.get(), workspace.at(part), bytes, cudaMemcpyDeviceToDevice, stream.get()),
                   "copying");
         }}};
    CapturedTape program(tape, stream.get(), true);
    for (int run = 0; run < 8; ++run) {  // eager, captured, replayed, and again from the start
        if (run == 4) workspace.part(0, 64 * bytes);
        workspace.settle();
        check(cudaMemsetAsync(out.get(), 0, bytes, stream.get()), "clearing");
        program.run(workspace.generation());
        std::vector<char> host(bytes);
        check(cudaMemcpyAsync(host.data(), out.get(), bytes, cudaMemcpyDeviceToHost, stream.get()), "reading");
        ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
        EXPECT_EQ(host, std::vector<char>(bytes, 7)) << "run " << run;
    }
}

// The second program needs more of the workspace than the first, which was captured before.
TEST_F(CudaBackends, AProgramGoesOnAfterALargerOneWasBuilt) {
    for (const Precision p : {Precision::f32, Precision::bf16}) {
        const Graph small = cuda_graph("mnist-conv", 28, 1, 10, p), large = cuda_graph("airbench94", 32, 3, 10, p);
        const std::unique_ptr<Backend> captured = backend(p, true), eager = backend(p, false);
        StepRunner first(*captured, small, 2);
        std::vector<double> losses = train(first, 3);
        StepRunner second(*captured, large, 3);
        const std::vector<double> others = train(second, 3);
        losses = joined(losses, train(first, 3));
        StepRunner alone(*eager, small, 2), second_alone(*eager, large, 3);
        EXPECT_EQ(losses, train(alone, 6));
        EXPECT_EQ(first.weights(), alone.weights());
        EXPECT_EQ(others, train(second_alone, 3));
    }
}

// The emulated device does only the work that is waited for: work after the mark is not done then.
TEST_F(CudaBackends, AMarkIsWaitedForAndNothingAfterIt) {
    const std::unique_ptr<Backend> gpu = backend(Precision::f32, true);
    constexpr size_t count = 16;
    const Buffer memory[] = {gpu->allocate_shared(count), gpu->allocate_shared(count)};
    std::vector<std::function<void()>> clear;
    for (const Buffer& b : memory) {
        Tape tape;
        gpu->zero({b.get(), {1, 1, 1, count / sizeof(float)}, DType::f32}, tape);
        clear.push_back(gpu->finish(tape));
    }
    for (int run = 0; run < 4; ++run) {  // eager, captured, replayed
        for (const Buffer& b : memory) std::fill_n(static_cast<char*>(b.get()), count, char(1));
        const auto is = [&](int which, char value) {
            const char* at = static_cast<const char*>(memory[which].get());
            return std::all_of(at, at + count, [=](char c) { return c == value; });
        };
        clear[0]();
        const std::function<void()> first = gpu->mark();
        clear[1]();
        first();
        EXPECT_TRUE(is(0, 0));
        if (is_emulated() && !std::getenv("EMULATED_ORDER")) {
            EXPECT_TRUE(is(1, 1)) << "the host waited for work after the mark";
        }
        gpu->synchronize();
        EXPECT_TRUE(is(1, 0));
    }
}

TEST_F(CudaBackends, TwoInOneProcessComputeAsEachAlone) {
    const Graph grey = cuda_graph("mnist-conv", 28, 1, 10, Precision::f32),
                colour = cuda_graph("airbench94", 32, 3, 10, Precision::f16);
    const auto alone = [](Precision p, const Graph& graph) {
        const std::unique_ptr<Backend> one = backend(p, true);
        StepRunner runner(*one, graph, 3);
        const std::vector<double> losses = train(runner, 4);
        const Floats weights = runner.weights();
        return joined(losses, {weights.begin(), weights.end()});
    };
    const std::vector<double> grey_alone = alone(Precision::f32, grey), colour_alone = alone(Precision::f16, colour);
    const std::unique_ptr<Backend> a = backend(Precision::f32, true), b = backend(Precision::f16, true);
    StepRunner first(*a, grey, 3), second(*b, colour, 3);
    std::vector<double> losses, others;
    for (int step = 0; step < 4; ++step) {
        losses = joined(losses, train(first, 1));
        others = joined(others, train(second, 1));
    }
    const Floats weights = first.weights(), other_weights = second.weights();
    EXPECT_EQ(joined(losses, {weights.begin(), weights.end()}), grey_alone);
    EXPECT_EQ(joined(others, {other_weights.begin(), other_weights.end()}), colour_alone);
}

}  // namespace
}  // namespace convoy::test
