// The CUDA backend's decisions that need no GPU: plan keys and their cache, padding, weight copies, what a run does next, and
// cuDNN's plans for GPUs that are not there.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/chips.h"
#include "backend/cuda/plan_table.h"
#include "backend/cuda/plans.h"
#include "backend/cuda/weight_copies.h"
#include "backend/cuda/workspace.h"
#include "model/models.h"
#include "tests/op_harness.h"
#include "train/program.h"

namespace convoy::test {
namespace {

Graph model(const std::string& name, int size, int channels, int classes, Precision p) {
    ModelOptions o;
    o.name = name;
    o.h = o.w = size;
    o.c = channels;
    o.classes = classes;
    return with_precision(fuse(build_model(o)), p);
}

TEST(CudaPlans, KeysTellSpecsApart) {
    const PlanSpec base{PlanSpec::conv, {8, 32, 32, 24}, {8, 32, 32, 32}, 3, 1, 1, DType::bf16};
    std::set<std::string> keys = {base.key()};
    const auto other = [&](auto change) {
        PlanSpec s = base;
        change(s);
        EXPECT_TRUE(keys.insert(s.key()).second) << s.key();
    };
    other([](PlanSpec& s) { s.kind = PlanSpec::conv_data_gradient; });
    other([](PlanSpec& s) { s.kind = PlanSpec::conv_data_gradient, s.add = true; });
    other([](PlanSpec& s) { s.kind = PlanSpec::conv_weight_gradient; });
    other([](PlanSpec& s) { s.kind = PlanSpec::conv_data_gradient, s.statistics = true; });
    other([](PlanSpec& s) { s.kind = PlanSpec::conv_weight_gradient, s.normalise = true; });
    other([](PlanSpec& s) { s.statistics = true; });
    other([](PlanSpec& s) { s.statistics = s.normalise = true; });
    other([](PlanSpec& s) { s.x.n = 9; });
    other([](PlanSpec& s) { s.x.c = 16; });
    other([](PlanSpec& s) { s.y.c = 40; });
    other([](PlanSpec& s) { s.kernel = 1, s.pad = 0; });
    other([](PlanSpec& s) { s.stride = 2, s.y.h = s.y.w = 16; });
    other([](PlanSpec& s) { s.type = DType::f16; });
    other([](PlanSpec& s) { s.type = DType::f32; });
    other([](PlanSpec& s) { s.type = DType::f32, s.exact = true; });
    other([](PlanSpec& s) { s.kind = PlanSpec::norm, s.epsilon = 1e-5f; });
    other([](PlanSpec& s) { s.kind = PlanSpec::norm, s.epsilon = 1e-3f; });
    other([](PlanSpec& s) { s.kind = PlanSpec::norm, s.epsilon = 1e-5f, s.relu = true; });
    other([](PlanSpec& s) { s.kind = PlanSpec::norm_gradient; });
    other([](PlanSpec& s) { s.kind = PlanSpec::norm_gradient, s.relu = true; });
    EXPECT_EQ(base.key(), "conv bf16 n8 32x32x24->32x32x32 k3 s1 p1") << "a cache written by an older version would not be found";
}

TEST(CudaPlans, CacheSurvivesTheFile) {
    const PlanChoices choices = {{"conv bf16 n8 a->b", {"eng62_k2=1", 12.5f}}, {"norm f16 n4", {"", 0}}, {"addition conv", {"kernel", 3}}};
    const PlanChoices again = parse_choices(text_of(choices));
    ASSERT_EQ(again.size(), choices.size());
    for (const auto& [key, c] : choices) {
        EXPECT_EQ(again.at(key).engine, c.engine) << key;
        EXPECT_EQ(again.at(key).microseconds, c.microseconds) << key;
    }
    EXPECT_TRUE(parse_choices("half a li").empty());
    EXPECT_TRUE(parse_choices("conv = what").empty());
}

TEST(CudaPlans, OperandsHaveBytes) {
    for (const auto& [name, spec, uses] : plans_of(model("pyramidnet", 32, 3, 10, Precision::bf16), 4, Precision::bf16))
        for (const Slot slot : operands_of(spec)) EXPECT_GT(operand_bytes(spec, slot), 0u) << name << " " << spec.key();
}

// ResNet-50's blocks: conv1 and conv2 end in a batch norm and ReLU that one convolution reads; behind conv3 comes the shortcut.
TEST(CudaPlans, ConvolutionsInF16TakeTheBatchNormsAroundThem) {
    std::map<std::string, int> uses;
    for (const NamedPlan& plan : plans_of(model("resnet50", 32, 3, 10, Precision::f16), 4, Precision::f16)) uses[plan.spec.family()] += plan.uses;
    EXPECT_EQ(uses["conv f16"], 53 + 1) << "the last is the classifier";
    EXPECT_EQ(uses["conv f16 statistics"], 53);
    EXPECT_EQ(uses["conv f16 normalise statistics"], 2 * 16);
    EXPECT_EQ(uses["conv-weight-gradient f16 normalise"], 2 * 16);
    EXPECT_EQ(uses["conv-data-gradient f16 statistics"], 2 * 16);
    const BatchNorm plain{0, 1, 0, 1, 2, 3, 1e-5f, 0.1f};
    BatchNorm norm = plain;
    norm.act = Activation::relu;
    EXPECT_TRUE(norm_in_conv(norm, DType::f16));
    EXPECT_FALSE(norm_in_conv(norm, DType::bf16)) << "no engines";
    EXPECT_TRUE(sums_by_conv(norm, DType::bf16));
    EXPECT_FALSE(sums_by_conv(norm, DType::f32));
    EXPECT_FALSE(norm_in_conv(plain, DType::f16));
    norm.residual = 2;
    EXPECT_FALSE(norm_in_conv(norm, DType::f16));
}

// A residual may have fewer channels than what it is added to and yet as many stored ones: cuDNN would take its padding for channels.
TEST(CudaPlans, AResidualThatIsPaddedFurtherIsLeftToTheKernels) {
    for (const char* name : {"pyramidnet", "pyramidnet110"})
        for (const Precision p : {Precision::bf16, Precision::f16}) {
            const Graph g = model(name, 32, 3, 10, p);
            const auto tensor = [&](ValueId v) { return Tensor{nullptr, g.values[size_t(v)].batched(4), g.values[size_t(v)].dtype, g.values[size_t(v)].padding}; };
            int further = 0;
            for (const Op& op : g.ops) {
                const auto* norm = std::get_if<BatchNorm>(&op);
                if (!norm || norm->residual == none) continue;
                const Tensor x = tensor(norm->x), residual = tensor(norm->residual);
                if (x.shape != residual.shape) continue;
                const bool same = x.channels() == residual.channels();
                EXPECT_EQ(norm_by_cudnn(*norm, x, &residual, p), same);
                further += !same;
            }
            EXPECT_GE(further, 1) << name;
        }
}

// The vectors of a norm that a convolution does are in the type of x, those of a norm's gradient are not.
TEST(CudaPlans, FusedOperandsHaveTheTypesThatTheStepsGiveThem) {
    PlanSpec s{PlanSpec::conv, {8, 32, 32, 24}, {8, 32, 32, 40}, 3, 1, 1, DType::f16};
    s.statistics = s.normalise = true;
    EXPECT_EQ(operands_of(s), (std::vector{Slot::x, Slot::weight, Slot::y, Slot::sum, Slot::squares, Slot::scale, Slot::bias}));
    EXPECT_EQ(operand_bytes(s, Slot::scale), 24u * 2);
    EXPECT_EQ(operand_bytes(s, Slot::sum), 40u * 4);
    s.kind = PlanSpec::conv_data_gradient;
    s.normalise = false;
    EXPECT_EQ(operand_bytes(s, Slot::scale), 24u * 4);
    EXPECT_EQ(operand_bytes(s, Slot::dscale), 24u * 4);
    EXPECT_EQ(operand_bytes(s, Slot::x), size_t(8) * 32 * 32 * 24 * 2);
}

// 3 -> 8 for the image, 21 -> 24, 26 -> 32; a whole number of 16-byte accesses in every row. Logits are what the loss reads.
TEST(CudaPrecision, PadsChannelsToEightOutsideF32) {
    for (const Precision p : {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16}) {
        const Graph g = model("pyramidnet", 32, 3, 10, p);
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

TEST(CudaPrecision, EveryVectorOfAPaddedLayerFitsItsSlotInTheArena) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = model("pyramidnet", 32, 3, 10, Precision::bf16);
    const OptimizerSpec spec;
    const State state(g, *cpu, &spec);
    const auto *begin = state.weights().as<float>(), *end = begin + state.weights().count();
    for (const Op& op : g.ops) {
        const auto* bn = std::get_if<BatchNorm>(&op);
        if (!bn) continue;
        const int stored = g.values[size_t(bn->x)].batched(1).c, real = g.values[size_t(bn->x)].c;
        const auto* scale = state.params()[size_t(bn->scale)].as<float>();
        ASSERT_TRUE(scale >= begin && scale + stored <= end);
        for (int c = real; c < stored; ++c) EXPECT_EQ(scale[c], 0) << "a padded channel has scale 0";
        for (const Tensor& t : state.params())  // no other parameter begins within the padded vector
            EXPECT_FALSE(t.as<float>() > scale && t.as<float>() < scale + stored);
    }
}

TEST(CudaWeightCopies, CutTheUpdateWithoutGapsOrOverlaps) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = model("mnist-conv", 28, 1, 10, Precision::bf16);
    const OptimizerSpec spec;
    const State state(g, *cpu, &spec);
    WeightCopies copies;
    std::map<int64_t, CopyShape> expected;  // by begin
    const auto* weights = state.weights().as<float>();
    for (const Op& op : g.ops) {
        if (const auto* conv = std::get_if<Conv>(&op)) {
            const Tensor& w = state.params()[size_t(conv->weight)];
            const CopyShape shape =
                weight_copy(w.shape, g.values[size_t(conv->x)].batched(1), g.values[size_t(conv->y)].batched(1), DType::bf16);
            EXPECT_EQ(copies.of(*cpu, w, shape), copies.of(*cpu, w, shape)) << "one copy a weight";
            expected[w.as<float>() - weights] = shape;
        } else if (const auto* linear = std::get_if<Linear>(&op)) {
            const Tensor& w = state.params()[size_t(linear->weight)];
            const CopyShape shape = linear_copy(w.shape.n, g.values[size_t(linear->x)], DType::bf16);
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

TEST(CudaWorkspace, PartsOfAnOperationDoNotOverlap) {
    Workspace w;  // never allocated
    const Workspace::Part a = w.part(0, 100), b = w.part(a.end(), 10), c = w.part(0, 50);
    EXPECT_EQ(a.offset, 0u);
    EXPECT_EQ(b.offset, 256u);
    EXPECT_EQ(c.offset, 0u) << "another operation uses the same memory";
    EXPECT_EQ(w.bytes(), 266u);
    const int before = w.generation();
    w.part(0, 266);
    EXPECT_EQ(w.generation(), before);
    w.part(0, 267);
    EXPECT_NE(w.generation(), before) << "what was captured holds an old address";
}

TEST(CudaCapture, FirstEagerThenCapturedThenReplayed) {
    EXPECT_EQ(next_mode(0, true, false, false), RunMode::eager);
    EXPECT_EQ(next_mode(1, true, false, false), RunMode::capture);
    EXPECT_EQ(next_mode(2, true, true, false), RunMode::replay);
    EXPECT_EQ(next_mode(9, true, true, true), RunMode::capture) << "the workspace moved";
    for (int64_t runs : {0, 1, 2}) EXPECT_EQ(next_mode(runs, false, false, false), RunMode::eager);
}

// A bucket is started behind its last gradient and before anything waits: the order that a captured step has.
TEST(CudaCapture, BucketsAreReducedInOrderBeforeTheWait) {
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const Graph g = model("mnist-conv", 28, 1, 10, Precision::f32);
    const OptimizerSpec spec;
    const State state(g, *cpu, &spec);
    const ProgramPlan plan = plan_program(g, *cpu, {2, 2, 0, true});
    const Buffer arena = cpu->allocate(plan.memory.bytes), counters = cpu->allocate(sizeof(Counters));
    for (const size_t target : {size_t(1), size_t(4096), size_t(1) << 30}) {
        const std::vector<Bucket> buckets = plan_buckets(state.counts(), target);
        size_t at = 0;
        for (const Bucket& b : buckets) {
            EXPECT_EQ(b.begin, at) << "buckets are slices of one arena";
            EXPECT_EQ(b.begin % stats_elements + b.end % stats_elements, 0u) << "whole 16-element rows, as bf16 sums need";
            at = b.end;
        }
        EXPECT_EQ(at, state.end_of_arena());
        const Program p = lower({g, *cpu, state, arena, 1, false, static_cast<Counters*>(counters.get()), nullptr}, plan, buckets, nullptr);
        size_t started = 0;
        for (size_t i = 0; i < p.tape.size(); ++i) started += p.tape[i].lane == Lane::communication;
        EXPECT_EQ(started, buckets.size());
        EXPECT_EQ(p.tape.back().lane, Lane::compute) << "the wait";
        if (target > state.end_of_arena()) {
            EXPECT_EQ(p.tape[p.tape.size() - 2].lane, Lane::communication) << "one all-reduce behind backward";
        }
    }
}

struct Benchmark {
    const char* model;
    int size, channels, classes;
    std::vector<int> batches;
};
const Benchmark benchmarks[] = {{"pyramidnet", 32, 3, 10, {64, 768}},
                                {"resnet18", 32, 3, 10, {512}},
                                {"resnet50", 32, 3, 10, {512}},
                                {"resnet50", 224, 3, 1000, {128, 256}},
                                {"airbench94", 32, 3, 10, {1024}},
                                {"mnist-conv", 28, 1, 10, {1024}}};
constexpr Precision precisions[] = {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16};

/// All distinct plans of the benchmarks in one precision.
std::vector<NamedPlan> benchmark_plans(Precision p) {
    std::map<std::string, NamedPlan> all;
    for (const Benchmark& b : benchmarks)
        for (const int batch : b.batches)
            for (const NamedPlan& plan : plans_of(model(b.model, b.size, b.channels, b.classes, p), batch, p))
                all.emplace(plan.spec.key(), plan);
    std::vector<NamedPlan> plans;
    for (const auto& [key, plan] : all) plans.push_back(plan);
    return plans;
}

class PlansOf : public testing::TestWithParam<std::string> {};

/// Its engines compile for the device: building ends at loading the kernel, for want of a driver.
bool compiled(const PlanSpec& s) { return s.is_norm() || s.add || (s.statistics && s.type == DType::bf16); }

// Convolutions and linear layers have precompiled engines, so their plans are built here in full; in f16 also with what they take over from
// batch norms.
TEST_P(PlansOf, EveryConvolutionIsBuilt) {
    for (const Precision p : precisions) {
        std::vector<NamedPlan> convolutions = benchmark_plans(p);
        std::erase_if(convolutions, [](const NamedPlan& plan) { return compiled(plan.spec); });
        EXPECT_GT(convolutions.size(), 100u);
        size_t largest = 0, sums = 0, norms = 0;
        for (const PlanRow& row : plan_rows(convolutions, GetParam())) {
            const PlanSpec& s = row.plan.spec;
            const bool stem = s.statistics && s.kernel == 7;  // for ImageNet: nothing precompiled sums
            EXPECT_EQ(row.state, stem ? PlanRow::listed : PlanRow::built) << name_of(p) << " " << row.plan.name << ": " << s.key();
            EXPECT_EQ(row.fallback.empty(), !s.statistics && !s.normalise) << s.key();
            sums += s.statistics && !s.normalise;
            norms += s.normalise;
            largest = std::max(largest, row.workspace);
        }
        std::printf("%s %s: %zu plans, the largest workspace has %zu MiB\n", GetParam().c_str(), name_of(p), convolutions.size(),
                    largest >> 20);
        EXPECT_LT(largest, size_t(4) << 30);
        EXPECT_EQ(sums > 100, p == Precision::f16) << "convolutions that sum for a batch norm";
        EXPECT_EQ(norms > 50, p == Precision::f16) << "that do the batch norm in front";
        std::printf("%zu sum for a batch norm, %zu do one\n", sums, norms);
    }
}

// Fused graphs compile for the device, so cuDNN lists engines for them: for all but a batch norm with a residual and no ReLU. Every
// one has a fallback. A sample, half a second each.
TEST_P(PlansOf, FusedGraphsAreListedOrFallBack) {
    for (const Precision p : {Precision::bf16, Precision::f16}) {
        std::map<std::string, NamedPlan> sample;  // one a kind and fusion
        for (const NamedPlan& plan : benchmark_plans(p)) {
            const PlanSpec& s = plan.spec;
            if (compiled(s))
                sample.emplace(std::to_string(s.kind) + (s.add ? "+" : "") + (s.relu ? "r" : "") + (s.statistics ? "s" : "") + (s.x.c % 16 ? "odd" : ""), plan);
        }
        EXPECT_GE(sample.size(), p == Precision::bf16 ? 9u : 7u);
        std::vector<NamedPlan> plans;
        for (const auto& [kind, plan] : sample) plans.push_back(plan);
        for (const PlanRow& row : plan_rows(plans, GetParam())) {
            const PlanSpec& s = row.plan.spec;
            const bool without = s.kind == PlanSpec::norm && s.add && !s.relu;  // PyramidNet's last norm of a block
            EXPECT_EQ(row.state == PlanRow::missing, without) << s.key();
            EXPECT_EQ(row.candidates == 0, without) << s.key();
            EXPECT_NE(row.fallback, "") << row.plan.spec.key();
        }
    }
}

TEST_P(PlansOf, TheTableNamesEngineAndWorkspace) {
    const std::string table = plan_table(model("mnist-conv", 28, 1, 10, Precision::bf16), 64, Precision::bf16, GetParam());
    for (const char* word : {"conv1", "conv2", "fc1", "fc2", "built", "eng", "conv-weight-gradient bf16 n64 28x28x8->24x24x16 k5 s1 p0"})
        EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
}

INSTANTIATE_TEST_SUITE_P(All, PlansOf, testing::ValuesIn(chip_names()), [](const auto& test) { return test.param; });

TEST(CudaChips, AnUnknownOneIsNamed) { EXPECT_THROW(chip_description("v100"), Error); }

}  // namespace
}  // namespace convoy::test
