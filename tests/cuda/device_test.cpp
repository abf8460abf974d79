// Tests that only a GPU can pass; skipped without one. Ops and golden values in f32 have separate
// tests, which run on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/cuda_backend.h"
#include "model/models.h"
#include "tests/support/cluster.h"
#include "tests/support/sample_log.h"
#include "tests/support/step_runner.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

using namespace cuda;

struct ModelCase {
    const char* name;
    int size, channels, batch;
};

Graph model(const ModelCase& c, Precision p) {
    ModelOptions o;
    o.name = c.name;
    o.h = o.w = c.size;
    o.c = c.channels;
    o.classes = 10;
    o.stem = "cifar";
    return with_precision(fuse(build_model(o)), p);
}

// Batches are odd, so no tile is full. PyramidNet is padded in every layer.
const ModelCase cases[] = {{"mnist-conv", 28, 1, 13},
                           {"resnet18", 32, 3, 6},
                           {"resnet50", 32, 3, 5},
                           {"pyramidnet", 32, 3, 3},
                           {"airbench94", 32, 3, 5}};

// Tests the reference itself: the same steps give the same numbers, and training makes progress.
TEST(CudaDeviceSteps, ThoseOfACpuRepeat) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = model(cases[0], Precision::f32);
    StepRunner a(*cpu, g, 5), b(*cpu, g, 5);
    double first = 0, last = 0;
    for (int step = 0; step < 6; ++step) {
        const StepRecord ra = a.step(), rb = b.step();
        EXPECT_EQ(ra.loss, rb.loss);
        EXPECT_EQ(ra.step, step + 1);
        (step == 0 ? first : last) = ra.loss;
    }
    EXPECT_LT(last, first);
    EXPECT_EQ(a.weights(), b.weights());
}

class CudaDevice : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    }
    static std::unique_ptr<Backend> backend(Precision p, bool capture = true, NormBy norm_by = NormBy::measured) {
        BackendOptions o;
        o.precision = p;
        o.capture = capture;
        o.norm_by = norm_by;
        return make_backend("cuda", o, test_comm());
    }
};

class CudaDeviceSteps : public CudaDevice, public testing::WithParamInterface<std::tuple<ModelCase, Precision>> {};

// The first step is eager in both; the others are captured in one of them. Plans come from the same
// cache, so they are the same.
TEST_P(CudaDeviceSteps, CapturedEqualEagerBitForBit) {
    const auto& [c, p] = GetParam();
    const std::unique_ptr<Backend> captured = backend(p, true);
    const Graph g = model(c, p);
    StepRunner a(*captured, g, c.batch);
    const std::unique_ptr<Backend> eager = backend(p, false);  // built second: the first one's times are in the cache
    StepRunner b(*eager, g, c.batch);
    double first = 0, last = 0;
    for (int step = 0; step < 4; ++step) {
        const StepRecord ra = a.step(), rb = b.step();
        EXPECT_EQ(ra.loss, rb.loss) << "step " << step;
        EXPECT_EQ(ra.accuracy, rb.accuracy);
        (step == 0 ? first : last) = ra.loss;
    }
    EXPECT_TRUE(std::isfinite(last) && last != first) << first << " " << last;
    EXPECT_EQ(a.weights(), b.weights());
    EXPECT_EQ(a.running(), b.running());
}

INSTANTIATE_TEST_SUITE_P(All, CudaDeviceSteps,
                         testing::Combine(testing::ValuesIn(cases),
                                          testing::Values(Precision::f32, Precision::bf16, Precision::f16)),
                         [](const auto& test) {
                             std::string name =
                                 std::get<0>(test.param).name + std::string("_") + name_of(std::get<1>(test.param));
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// Gaps between parameters hold only zeros, in weights and gradients: padded channels are inert.
TEST_F(CudaDevice, PaddingStaysZero) {
    for (const auto& [p, algorithm] : {std::pair{Precision::tf32, NormBy::measured},
                                       {Precision::bf16, NormBy::plans},
                                       {Precision::f16, NormBy::convolutions}}) {
        const std::unique_ptr<Backend> gpu = backend(p, true, algorithm);
        const Graph g = model(cases[3], p);
        StepRunner run(*gpu, g, 2);
        for (int step = 0; step < 2; ++step) run.step();
        const State& state = run.state();
        const auto* begin = state.weights().as<float>();
        std::vector<bool> real(state.weights().count(), false);
        for (size_t i = 0; i < stats_elements; ++i) real[i] = true;  // the batch sums
        for (size_t id = 0; id < g.params.size(); ++id)
            if (g.params[id].trained)
                for (size_t i = 0; i < g.params[id].shape.count(); ++i)
                    real[size_t(state.params()[id].as<float>() - begin) + i] = true;
        const Floats weights = run.weights(), gradients = run.gradients();
        for (size_t i = 0; i < real.size(); ++i) {
            if (real[i]) continue;
            ASSERT_EQ(weights[i], 0) << "element " << i;
            ASSERT_EQ(gradients[i], 0) << "element " << i;
        }
    }
}

TEST_F(CudaDevice, ANaNLeavesTheWeightsAlone) {
    for (const Precision p : {Precision::f32, Precision::bf16, Precision::f16}) {
        const std::unique_ptr<Backend> gpu = backend(p);
        const Graph g = model(cases[0], p);
        StepRunner run(*gpu, g, 13);
        EXPECT_FALSE(run.step().skipped);
        const ParamId last = std::get<Linear>(g.ops[g.ops.size() - 2]).bias;
        const float bad = std::numeric_limits<float>::quiet_NaN();
        gpu->upload(run.state().params()[last].data, &bad, sizeof bad);
        const Floats before = run.weights();
        for (int step = 0; step < 3; ++step) {  // eager, captured, replayed
            const StepRecord r = run.step();
            EXPECT_TRUE(r.skipped);
            EXPECT_TRUE(std::isnan(r.loss));
        }
        const Floats after = run.weights();
        for (size_t i = 0; i < before.size(); ++i)
            ASSERT_TRUE(after[i] == before[i] || (std::isnan(after[i]) && std::isnan(before[i]))) << i;
    }
}

// An f16 gradient that overflows lowers the scale and skips the step, but is not a failure.
TEST_F(CudaDevice, LossScaleFallsUntilGradientsFit) {
    const std::unique_ptr<Backend> gpu = backend(Precision::f16);
    const Graph g = model(cases[0], Precision::f16);
    StepRunner run(*gpu, g, 13);
    const Tensor last = run.state().params()[std::get<Linear>(g.ops[g.ops.size() - 2]).weight];
    Floats large = download<float>(*gpu, last.data, last.count());
    // logits stay small, but 65536 times their gradient does not fit in 16 bits
    for (float& w : large) w *= 64;
    gpu->upload(last.data, large.data(), last.bytes());
    const Floats before = run.weights();
    for (int step = 0; step < 20; ++step) EXPECT_FALSE(run.step().skipped) << step;
    const Floats after = run.weights();
    EXPECT_NE(after, before) << "the scale fell far enough for an update";
    for (const float w : after) ASSERT_TRUE(std::isfinite(w));
}

// In ResNet-18's blocks the first of two convolutions ends in a batch norm and ReLU that only the
// second reads. (golden_test.cpp checks the numbers of every implementation of batch norm.)
TEST_F(CudaDevice, ConvolutionsInF16NormaliseWhatTheyRead) {
    for (const auto& [p, algorithm, unwritten] : {std::tuple{Precision::f16, NormBy::convolutions, 8},
                                                  {Precision::f16, NormBy::plans, 0},
                                                  {Precision::f16, NormBy::kernels, 0},
                                                  {Precision::bf16, NormBy::convolutions, 0}}) {
        const std::unique_ptr<Backend> gpu = backend(p, true, algorithm);
        EXPECT_EQ(StepRunner(*gpu, model(cases[1], p), 2).unwritten(), unwritten) << name_of(p);
    }
}

TEST_F(CudaDevice, NcclOfOneRankSumsInAndOutOfAGraph) {
    const std::unique_ptr<Backend> gpu = backend(Precision::f32);
    const Stream compute, communication(true);
    const Floats values = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                           17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
    for (const bool bf16 : {false, true}) {
        const auto sums = connect_by_nccl(test_comm(), compute.get(), communication.get(), bf16, *gpu);
        const Buffer data = upload(*gpu, values);
        auto* floats = static_cast<float*>(data.get());
        const Tape tape = {
            {{.name = "sum"}, Resource::communication, [&] { sums->start(floats, values.size(), stats_elements); }},
            {{.name = "wait"}, Resource::compute, [&] { sums->wait(); }}};
        CapturedTape program(tape, compute.get(), sums->capturable());
        for (int run = 0; run < 4; ++run) {  // eager, captured, replayed twice
            program.run(0);
            ASSERT_EQ(cudaStreamSynchronize(compute.get()), cudaSuccess);
            sums->poll();
            EXPECT_EQ(download<float>(*gpu, floats, values.size()), values) << "small integers are exact in bf16 too";
        }
    }
}

TEST_F(CudaDevice, TwoRanksOnOneGpuEqualOne) {
    TempDir dir;
    make_data(dir.path("data"), 103, 37, "28x28x1");
    const std::string arguments = "train --device cuda --data " + dir.path("data") +
                                  " --batch-size 33 --epochs 2 --log-interval 1 --lr 0.02 --checkpoint-every none";
    for (const std::string model : {" --model mnist-linear", " --model mnist-conv"}) {
        EXPECT_EQ("", failure(launch(1, arguments + model + " --output " + dir.path("one" + model.substr(9)), 120)));
        EXPECT_EQ("",
                  failure(launch(2, arguments + model + " --share-device --output " + dir.path("two" + model.substr(9)),
                                 120)));
        EXPECT_LE(deviation(column(dir.path("two" + model.substr(9)), "train/loss"),
                            column(dir.path("one" + model.substr(9)), "train/loss")),
                  1e-4);
    }
    const Finished refused = launch(2, arguments + " --model mnist-linear --devices 0 --output " + dir.path("no"), 60);
    EXPECT_EQ("", refusal(refused, Exit::usage, {"--share-device"}));
}

// NCCL's all-reduces, in buckets that overlap with backward, inside the captured step. Batch norm
// uses the statistics of all ranks, so their number does not change a loss.
TEST_F(CudaDevice, TwoRanksOnTwoGpusEqualOne) {
    if (find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
    TempDir dir;
    make_data(dir.path("grey"), 103, 37, "28x28x1");
    make_data(dir.path("colour"), 66, 37, "32x32x3");
    const auto losses = [&](int ranks, const std::string& data, const std::string& more) {
        const std::string output = dir.path(std::to_string(ranks) + more);
        EXPECT_EQ("", failure(launch(ranks,
                                     "train --device cuda --data " + dir.path(data) +
                                         " --batch-size 33 --log-interval 1 --lr 0.02 --checkpoint-every none " +
                                         "--output '" + output + "' --model " + more,
                                     240)));
        return column(output, "train/loss");
    };
    const std::vector<double> one = losses(1, "grey", "mnist-conv --epochs 2");
    EXPECT_LE(deviation(losses(2, "grey", "mnist-conv --epochs 2 --bucket-mib 1"), one), 1e-4);
    EXPECT_LE(deviation(losses(2, "grey", "mnist-conv --epochs 2 --no-graph --bucket-mib 4096"), one), 1e-4);
    EXPECT_LE(deviation(losses(2, "grey", "mnist-conv --epochs 2 --bf16-gradients"), one), 1e-2)
        << "a sum in bf16 is rounded by 2^-9";
    EXPECT_LE(deviation(losses(2, "grey", "mnist-conv --epochs 2 --precision bf16 --bucket-mib 1"),
                        losses(1, "grey", "mnist-conv --epochs 2 --precision bf16")),
              1e-2)
        << "gradients in bf16 are rounded before they are summed";
    EXPECT_LE(
        deviation(losses(2, "colour", "airbench94 --epochs 1 --sync-bn"), losses(1, "colour", "airbench94 --epochs 1")),
        1e-4);
}

// Runs on NCCL, which does not support two ranks on one GPU.
TEST_F(CudaDevice, TheToyAllReduceOfTwoGpusIsRight) {
    if (find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
    const Finished f = launch(2, "comm-test --device cuda --steps 5 --seed 3 --log-format toy");
    ASSERT_EQ("", failure(f));
    EXPECT_EQ("", problem_of_toy_sums(f.out));
}

// The next test starts this one in a separate process. After the device is lost, its resources
// cannot be freed in order.
TEST_F(CudaDevice, DISABLED_LosesItsDevice) {
    const std::unique_ptr<Backend> gpu = backend(Precision::f32);
    const Graph g = model(cases[0], Precision::f32);
    StepRunner run(*gpu, g, 4);
    run.step(), run.step(), run.step();  // eager, captured, replayed
    std::fprintf(stderr, "three steps done\n");
    const Tensor nowhere{reinterpret_cast<void*>(uintptr_t(1) << 20), {1, 64, 64, 64}, DType::f32};
    Tape tape;
    // simulates a lost device: every call fails from here on
    gpu->add_scaled(nowhere, 1, nowhere, false, tape);
    const auto poison = gpu->finish(tape);
    try {
        poison();
        for (int step = 0; step < 3; ++step) run.step();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "convoy: %s\n", error.what());
        std::_Exit(1);
    }
    std::_Exit(0);
}

// This fault is deliberate and may affect other users of the machine, so it runs only on request.
TEST_F(CudaDevice, ADeviceThatIsTakenAwayEndsTheRun) {
    if (!std::getenv("CONVOY_DESTRUCTIVE"))
        GTEST_SKIP() << "it breaks the GPU's context: set CONVOY_DESTRUCTIVE, or `gpu.sh test --destructive`";
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const Finished f = run(
        with_limit(self + " --gtest_also_run_disabled_tests --gtest_filter=CudaDevice.DISABLED_LosesItsDevice", 60));
    EXPECT_NE(f.err.find("three steps done"), std::string::npos) << f.err;
    EXPECT_EQ(f.code, 1) << f.err << "0: nobody noticed; 124: it hung; above 128: it crashed";
    EXPECT_NE(f.err.find("failed on the GPU"), std::string::npos) << f.err;
}

TEST_F(CudaDevice, AResumedRunEqualsOneThatWasNotInterrupted) {
    TempDir dir;
    make_data(dir.path("data"), 64, 16, "28x28x1");
    const std::string arguments = "train --device cuda --data " + dir.path("data") +
                                  " --model mnist-conv --batch-size 16 --log-interval 1 --lr 0.02 --epochs 4 --output ";
    EXPECT_EQ("", failure(launch(1, arguments + dir.path("whole"), 120)));
    EXPECT_EQ("", failure(launch(1, arguments + dir.path("parts") + " --max-steps 6 --checkpoint-every 6", 120)));
    EXPECT_EQ("", failure(launch(1, arguments + dir.path("parts") + " --resume auto", 120)));
    EXPECT_EQ(tensors(dir.path("whole") + "/model.h5"), tensors(dir.path("parts") + "/model.h5"));
}

}  // namespace
}  // namespace convoy::test
