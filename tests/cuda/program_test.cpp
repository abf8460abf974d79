// The CUDA backend's decisions about a program, without a GPU: padding, weight copies, the
// workspace, the next action of a run, and when buckets are reduced.
#include <gtest/gtest.h>

#include <map>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/weight_copies.h"
#include "backend/cuda/workspace.h"
#include "backend/gpu/dry_run_backend.h"
#include "tests/cuda/graphs.h"
#include "tests/ops/op_harness.h"
#include "train/program.h"

namespace convoy::test {
namespace {

using namespace cuda;

// Padding is 3 -> 8 for the image, 21 -> 24, 26 -> 32: a whole number of 16-byte accesses in every
// row. Logits are the loss's input.
TEST(CudaProgram, PadsChannelsToEightOutsideF32) {
    for (const Precision p : {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16}) {
        const Graph g = cuda_graph("pyramidnet", 32, 3, 10, p);
        const ValueId logits = std::get<SoftmaxXent>(g.ops.back()).x;
        for (size_t v = 0; v < g.values.size(); ++v) {
            const Value& value = g.values[v];
            if (int(v) == logits) {
                EXPECT_EQ(value.dtype, DType::f32);
                EXPECT_EQ(value.padding, 0);
                continue;
            }
            EXPECT_EQ(value.dtype, p == Precision::bf16 ? DType::bf16 : p == Precision::f16 ? DType::f16 : DType::f32);
            EXPECT_EQ((value.c + value.padding) % (p == Precision::f32 ? 1 : 8), 0) << value.name;
            EXPECT_LT(value.padding, p == Precision::f32 ? 1 : 8);
            EXPECT_EQ(value.batched(2).count(), size_t(2) * value.h * value.w * (value.c + value.padding));
        }
    }
}

TEST(CudaProgram, EveryVectorOfAPaddedLayerFitsItsSlotInTheArena) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = cuda_graph("pyramidnet", 32, 3, 10, Precision::bf16);
    const OptimizerSpec spec;
    const State state(g, *cpu, &spec);
    const auto *begin = state.weights().as<float>(), *end = begin + state.weights().count();
    for (const Op& op : g.ops) {
        const auto* bn = std::get_if<BatchNorm>(&op);
        if (!bn) continue;
        const int stored = g.values[bn->x].batched(1).c, real = g.values[bn->x].c;
        const auto* scale = state.params()[bn->scale].as<float>();
        ASSERT_TRUE(scale >= begin && scale + stored <= end);
        for (int c = real; c < stored; ++c) EXPECT_EQ(scale[c], 0) << "a padded channel has scale 0";
        for (const Tensor& t : state.params())  // no other parameter begins within the padded vector
            EXPECT_FALSE(t.as<float>() > scale && t.as<float>() < scale + stored);
    }
}

TEST(CudaProgram, WeightCopiesCutTheUpdateWithoutGapsOrOverlaps) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = cuda_graph("mnist-conv", 28, 1, 10, Precision::bf16);
    const OptimizerSpec spec;
    const State state(g, *cpu, &spec);
    WeightCopies copies;
    std::map<int64_t, CopyShape> expected;  // by begin
    const auto* weights = state.weights().as<float>();
    for (const Op& op : g.ops) {
        if (const auto* conv = std::get_if<Conv>(&op)) {
            const Tensor& w = state.params()[conv->weight];
            const CopyShape shape =
                weight_copy(w.shape, g.values[conv->x].batched(1), g.values[conv->y].batched(1), DType::bf16);
            EXPECT_EQ(copies.of(*cpu, w, shape), copies.of(*cpu, w, shape)) << "one copy a weight";
            expected[w.as<float>() - weights] = shape;
        } else if (const auto* linear = std::get_if<Linear>(&op)) {
            const Tensor& w = state.params()[linear->weight];
            const CopyShape shape = linear_copy(w.shape.n, g.values[linear->x], DType::bf16);
            EXPECT_EQ(size_t(shape.rows) * size_t(shape.channels), w.count());
            copies.of(*cpu, w, shape);
            expected[w.as<float>() - weights] = shape;
        }
    }
    ASSERT_EQ(expected.size(), 4u);
    for (const bool weights_only : {false, true}) {
        const Update u = state.update(spec, 0.5f, weights_only);
        const auto segments = copies.segments(weights, u.segments);
        int64_t at = int64_t(u.segments.front().begin);
        size_t found = 0;
        for (const kernels::Segment& s : segments) {
            EXPECT_EQ(s.begin, at) << "no gap";
            EXPECT_GT(s.end, s.begin);
            EXPECT_EQ(s.begin % 4 + s.end % 4, 0);
            EXPECT_EQ(s.steps, INT64_MAX);
            EXPECT_EQ(s.learning_rate, 1);
            at = s.end;
            if (!s.copy) continue;
            ++found;
            ASSERT_TRUE(expected.contains(s.begin));
            EXPECT_EQ(s.stored, expected[s.begin].stored);
            EXPECT_EQ(s.count, expected[s.begin].rows * expected[s.begin].channels);
            EXPECT_EQ(s.weight_decay, 0.5f);
        }
        EXPECT_EQ(at, int64_t(u.segments.back().end));
        EXPECT_EQ(found, expected.size());
    }
}

TEST(CudaProgram, WeightCopiesEndWithTheirMaster) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    WeightCopies copies;
    const CopyShape shape{16, 16, 4, 8, DType::bf16};
    const Buffer memory = cpu->allocate(3 * 64 * sizeof(float));
    auto* masters = static_cast<float*>(memory.get());
    const auto copied = [&] {
        std::string text;
        for (const kernels::Segment& s : copies.segments(masters, {{0, 192, 0}})) text += s.copy ? "copy " : "none ";
        return text;
    };
    for (int i = 0; i < 3; ++i) copies.of(*cpu, {masters + 64 * i, {16, 1, 1, 4}, DType::f32}, shape);
    EXPECT_EQ(copied(), "copy copy copy ");
    copies.forget(masters + 64, 64 * sizeof(float));
    EXPECT_EQ(copied(), "copy none copy ");
    copies.forget(masters + 1, sizeof(float));
    EXPECT_EQ(copied(), "copy none copy ") << "no master begins there";
    copies.forget(masters, 192 * sizeof(float));
    EXPECT_EQ(copied(), "none ");
}

TEST(CudaProgram, PartsOfAWorkspaceDoNotOverlap) {
    Workspace w;  // never allocated
    const Workspace::Part a = w.part(0, 100), b = w.part(a.end(), 10), c = w.part(0, 50);
    EXPECT_EQ(a.offset, 0u);
    EXPECT_EQ(b.offset, 256u);
    EXPECT_EQ(c.offset, 0u) << "another operation uses the same memory";
    EXPECT_EQ(b.end(), 266u);
    const int before = w.generation();
    w.part(0, 266);
    EXPECT_EQ(w.generation(), before);
    w.part(0, 267);
    EXPECT_NE(w.generation(), before) << "what was captured holds an old address";
}

TEST(CudaProgram, RunsEagerlyThenIsCapturedThenReplayed) {
    EXPECT_EQ(next_mode(0, true, false, false), RunMode::eager);
    EXPECT_EQ(next_mode(1, true, false, false), RunMode::capture);
    EXPECT_EQ(next_mode(2, true, true, false), RunMode::replay);
    EXPECT_EQ(next_mode(9, true, true, true), RunMode::capture) << "the workspace moved";
    for (int64_t runs : {0, 1, 2}) EXPECT_EQ(next_mode(runs, false, false, false), RunMode::eager);
}

// A bucket starts after its last gradient and before anything waits: the order of a captured step.
TEST(CudaProgram, BucketsAreReducedInOrderBeforeTheWait) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = cuda_graph("mnist-conv", 28, 1, 10, Precision::f32);
    const OptimizerSpec spec;
    const State state(g, *cpu, &spec);
    const PreparedProgram prepared = prepare_program(g, *cpu, {2, 2, 0, true});
    const Buffer arena = cpu->allocate(prepared.memory.bytes), counters = cpu->allocate(sizeof(Counters));
    for (const size_t target : {size_t(1), size_t(4096), size_t(1) << 30}) {
        const std::vector<Bucket> buckets = cut_buckets(state.counts(), target);
        size_t at = 0;
        for (const Bucket& b : buckets) {
            EXPECT_EQ(b.begin, at) << "buckets are slices of one arena";
            EXPECT_EQ(b.begin % stats_elements + b.end % stats_elements, 0u)
                << "whole 16-element rows, as bf16 sums need";
            at = b.end;
        }
        EXPECT_EQ(at, state.end_of_arena());
        const Program p = lower({g, *cpu, state, arena, 1, false, static_cast<Counters*>(counters.get()), nullptr},
                                prepared, buckets, nullptr);
        size_t started = 0;
        for (size_t i = 0; i < p.tape.size(); ++i) started += p.tape[i].resource == Resource::communication;
        EXPECT_EQ(started, buckets.size());
        EXPECT_EQ(p.tape.back().resource, Resource::compute) << "the wait";
        if (target > state.end_of_arena()) {
            EXPECT_EQ(p.tape[p.tape.size() - 2].resource, Resource::communication) << "one all-reduce after backward";
        }
    }
}

/// Notes which gradients a program computes, finishes and passes on.
class OrderOfGradients : public DryRunBackend {
public:
    OrderOfGradients() : DryRunBackend("", size_t(1) << 40, "", {.precision = Precision::bf16}, 1) {}
    void backward(const Op& op, const OpArguments&, Tape&) override {
        unfinished_ = unfinished_ || !params_of(op).empty();
        computed_ += !params_of(op).empty();
    }
    void finish_gradients(Tape&) override { unfinished_ = false; }
    void allreduce(Tensor, size_t, Tape&) override { pass_on(); }
    void accumulate_exact(const ExactSums&, const float*, size_t, size_t, Tape&) override { pass_on(); }
    void wait_allreduce(Tape&) override { pass_on(); }
    int computed() const { return computed_; }
    int passed_on() const { return passed_on_; }

private:
    void pass_on() {
        EXPECT_FALSE(unfinished_) << "after " << computed_ << " ops";
        ++passed_on_;
    }
    bool unfinished_ = false;
    int computed_ = 0, passed_on_ = 0;
};

TEST(CudaProgram, GradientsAreFinishedBeforeTheyArePassedOn) {
    const Graph g = cuda_graph("airbench94", 32, 3, 10, Precision::bf16);
    const OptimizerSpec spec;
    for (const bool logical : {false, true})
        for (const size_t target : {size_t(1), size_t(1) << 16, size_t(1) << 30}) {
            OrderOfGradients backend;
            const State state(g, backend, &spec);
            const PreparedProgram prepared = prepare_program(g, backend, {2, 2, 0, true});
            const Buffer arena = backend.allocate(prepared.memory.bytes), counters = backend.allocate(sizeof(Counters));
            const std::vector<Bucket> buckets = cut_buckets(state.counts(), target);
            const ExactSums sums{};
            const LogicalRank rank{state.operands(), sums, true};
            ProgramContext context{g, backend, state, arena, 1, false, static_cast<Counters*>(counters.get())};
            if (logical) context.logical = &rank;
            lower(context, prepared, buckets, nullptr);
            EXPECT_EQ(backend.passed_on(), int(buckets.size()) + !logical) << "buckets, and the wait for all of them";
            EXPECT_GT(backend.computed(), 10);
        }
}

}  // namespace
}  // namespace convoy::test
