// Memory that would be requested from a GPU.
#include "backend/gpu/dry_run_backend.h"

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

constexpr size_t MiB = size_t(1) << 20;

// Tapes of several batch sizes, and evaluations, share the same copies of the weights.
TEST(DryRunBackends, AWeightIsCopiedOnce) {
    DryRunBackend gpu("a GPU", 64 * MiB, "its memory", {.precision = Precision::bf16}, 4 * MiB);
    Graph graph;
    graph.input = 0;
    graph.values = {{"x", 8, 8, 20, DType::bf16}, {"y", 8, 8, 30, DType::bf16}};
    graph.params = {{"weight", {30, 3, 3, 20}, {Init::constant, 0}, true, true}};
    graph.ops = {Conv{0, 1, 0, none, 3, 1, 1}};
    const GradientFlow flow = gradient_flow(graph);
    const std::shared_ptr<const Algorithms> algorithms = gpu.select({graph, 4, false, flow});
    const auto forward = [&](const std::vector<Tensor>& params, DType type) {
        const std::vector<Tensor> values = {{nullptr, {4, 8, 8, 20}, type}, {nullptr, {4, 8, 8, 30}, type}},
                                  no_values(2), no_params(1);
        const std::vector<void*> saved(1);
        const size_t before = gpu.memory_taken();
        const OpArguments arguments{.op = 0,
                                    .name = "conv",
                                    .graph = graph,
                                    .algorithms = *algorithms,
                                    .values = values,
                                    .value_gradients = no_values,
                                    .params = params,
                                    .param_gradients = no_params,
                                    .accumulate = flow.accumulate[0],
                                    .saved = saved,
                                    .labels = {},
                                    .stats = nullptr,
                                    .counters = nullptr,
                                    .global_batch = 4,
                                    .first = 0,
                                    .seed = 0,
                                    .training = true};
        Tape tape;
        gpu.forward(graph.ops[0], arguments, tape);
        return gpu.memory_taken() - before;
    };
    const Shape shape = graph.params[0].shape;
    const Buffer first = gpu.allocate(shape.count() * 4), second = gpu.allocate(shape.count() * 4);
    const std::vector<Tensor> one = {{first.get(), shape, DType::f32}}, other = {{second.get(), shape, DType::f32}};
    const size_t copy = (32 * 9 * 24 * 2 + 255) / 256 * 256;  // channels padded to 8, two bytes each
    EXPECT_EQ(forward(one, DType::f32), 0u) << "f32 reads the weight itself";
    EXPECT_EQ(forward(one, DType::bf16), copy);
    EXPECT_EQ(forward(one, DType::bf16), 0u);
    EXPECT_EQ(forward(other, DType::bf16), copy);
}

TEST(DryRunBackends, WhatDoesNotFitIsRefused) {
    DryRunBackend gpu("a GPU", MiB, "the memory of a GPU", {}, 4 * MiB);
    EXPECT_EQ(gpu.device_memory_free(), MiB);
    const Buffer block = gpu.allocate(MiB - 256 - 1);
    EXPECT_EQ(gpu.memory_taken(), MiB - 256) << "in units of 256 bytes";
    EXPECT_NO_THROW(gpu.allocate(1));
    EXPECT_EQ("", problem_of_error(Exit::out_of_memory, {"the memory of a GPU"}, [&] { gpu.allocate(1); }));
}

}  // namespace
}  // namespace convoy::test
