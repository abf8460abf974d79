// cuDNN's plans without a GPU: their keys, their cache, and those for GPUs that are not present.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <set>

#include "backend/chips.h"
#include "backend/cuda/chips.h"
#include "backend/cuda/device.h"
#include "backend/cuda/plan_builder.h"
#include "backend/cuda/plan_table.h"
#include "backend/cuda/plans.h"
#include "backend/cuda/timing.h"
#include "backend/cuda_queries.h"
#include "tests/cuda/graphs.h"
#include "tests/ops/op_harness.h"
#include "train/program.h"

namespace convoy::test {
namespace {

using namespace cuda;

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
    EXPECT_EQ(base.key(), "conv bf16 n8 32x32x24->32x32x32 k3 s1 p1")
        << "a cache written by an older version would not be found";
}

TEST(CudaPlans, CacheSurvivesTheFile) {
    const TunedPlans tuned = {
        {"conv bf16 n8 a->b", {"eng62_k2=1", 12.5f}}, {"norm f16 n4", {"", 0}}, {"addition conv", {"kernel", 3}}};
    const TunedPlans again = parse_tuned_plans(text_of(tuned));
    ASSERT_EQ(again.size(), tuned.size());
    for (const auto& [key, c] : tuned) {
        EXPECT_EQ(again.at(key).engine, c.engine) << key;
        EXPECT_EQ(again.at(key).microseconds, c.microseconds) << key;
    }
    EXPECT_TRUE(parse_tuned_plans("half a li").empty());
    EXPECT_TRUE(parse_tuned_plans("conv = what").empty());
}

// A cache of 50 MiB keeps nothing of operands that take twice as much from turn to turn.
TEST(CudaPlans, AreTimedOnMoreThanTheCacheHolds) {
    constexpr size_t mib = 1 << 20;
    EXPECT_EQ(turns(1024 * mib, 50 * mib), 1u);
    EXPECT_EQ(turns(50 * mib, 50 * mib), 3u);
    EXPECT_EQ(turns(20 * mib, 50 * mib), 6u);
    EXPECT_EQ(turns(1000, 50 * mib), 16u) << "of small operands a training finds some in the cache too";
    EXPECT_EQ(turns(0, 0), 1u);
}

TEST(CudaPlans, OperandsHaveBytes) {
    for (const auto& [name, spec, uses] :
         plans_of(cuda_graph("pyramidnet", 32, 3, 10, Precision::bf16), 4, {Precision::bf16}))
        for (const Slot slot : operands_of(spec)) EXPECT_GT(operand_bytes(spec, slot), 0u) << name << " " << spec.key();
}

// ResNet-50's blocks: conv1 and conv2 end in a batch norm and ReLU that one convolution reads;
// after conv3 comes the shortcut.
TEST(CudaPlans, ConvolutionsInF16TakeTheBatchNormsAroundThem) {
    std::map<std::string, int> uses;
    for (const NamedPlan& plan : plans_of(cuda_graph("resnet50", 32, 3, 10, Precision::f16), 4, {Precision::f16}))
        uses[plan.spec.family()] += plan.uses;
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

// A residual may have fewer channels than the tensor that it is added to, and still as many stored
// ones: cuDNN would treat its padding as channels.
TEST(CudaPlans, AResidualThatIsPaddedFurtherIsLeftToTheKernels) {
    for (const char* name : {"pyramidnet", "pyramidnet110"})
        for (const Precision p : {Precision::bf16, Precision::f16}) {
            const Graph g = cuda_graph(name, 32, 3, 10, p);
            const auto tensor = [&](ValueId v) {
                return Tensor{nullptr, g.values[v].batched(4), g.values[v].dtype, g.values[v].padding};
            };
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

// If a convolution does a norm, the norm's vectors have the type of x; those of a norm's gradient
// do not.
TEST(CudaPlans, FusedOperandsHaveTheTypesThatTheStepsGiveThem) {
    PlanSpec s{PlanSpec::conv, {8, 32, 32, 24}, {8, 32, 32, 40}, 3, 1, 1, DType::f16};
    s.statistics = s.normalise = true;
    EXPECT_EQ(operands_of(s),
              (std::vector{Slot::x, Slot::weight, Slot::y, Slot::sum, Slot::squares, Slot::scale, Slot::bias}));
    EXPECT_EQ(operand_bytes(s, Slot::scale), 24u * 2);
    EXPECT_EQ(operand_bytes(s, Slot::sum), 40u * 4);
    s.kind = PlanSpec::conv_data_gradient;
    s.normalise = false;
    EXPECT_EQ(operand_bytes(s, Slot::scale), 24u * 4);
    EXPECT_EQ(operand_bytes(s, Slot::dscale), 24u * 4);
    EXPECT_EQ(operand_bytes(s, Slot::x), size_t(8) * 32 * 32 * 24 * 2);
}

struct Benchmark {
    const char* model;
    int size, channels, classes;
    std::vector<int> batches;
};
const Benchmark benchmarks[] = {{"pyramidnet", 32, 3, 10, {64, 768}}, {"resnet18", 32, 3, 10, {512}},
                                {"resnet50", 32, 3, 10, {512}},       {"resnet50", 224, 3, 1000, {128, 256}},
                                {"airbench94", 32, 3, 10, {1024}},    {"mnist-conv", 28, 1, 10, {1024}}};
constexpr Precision precisions[] = {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16};

/// Returns all distinct plans of the benchmarks in one precision.
std::vector<NamedPlan> benchmark_plans(Precision p) {
    std::map<std::string, NamedPlan> all;
    for (const Benchmark& b : benchmarks)
        for (const int batch : b.batches)
            for (const NamedPlan& plan : plans_of(cuda_graph(b.model, b.size, b.channels, b.classes, p), batch, {p}))
                all.emplace(plan.spec.key(), plan);
    std::vector<NamedPlan> plans;
    for (const auto& [key, plan] : all) plans.push_back(plan);
    return plans;
}

/// Returns the processor time of all threads of this process.
double cpu_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

class CudaPlansOf : public testing::TestWithParam<std::string> {};

/// Returns true if the plan's engines compile for the device: building ends when it loads the
/// kernel, because there is no driver.
bool compiled(const PlanSpec& s) { return s.is_norm() || s.add || (s.statistics && s.type == DType::bf16); }

// Convolutions and linear layers have precompiled engines, so their plans are built here
// completely; in f16 also with the parts of batch norms that they do.
TEST_P(CudaPlansOf, EveryConvolutionIsBuilt) {
    for (const Precision p : precisions) {
        if (p == Precision::f16 && !plans_f16(cudnnGetVersion(), find_chip(GetParam()).capability)) continue;
        std::vector<NamedPlan> convolutions = benchmark_plans(p);
        std::erase_if(convolutions, [](const NamedPlan& plan) { return compiled(plan.spec); });
        EXPECT_GT(convolutions.size(), 100u);
        size_t largest = 0, sums = 0, norms = 0;
        for (const PlanRow& row : plan_rows(convolutions, GetParam())) {
            const PlanSpec& s = row.plan.spec;
            const bool stem = s.statistics && s.kernel == 7;  // for ImageNet: no precompiled engine sums
            EXPECT_EQ(row.state, stem ? PlanRow::listed : PlanRow::built)
                << name_of(p) << " " << row.plan.name << ": " << s.key();
            EXPECT_EQ(row.fallback.empty(), !s.statistics && !s.normalise) << s.key();
            sums += s.statistics && !s.normalise;
            norms += s.normalise;
            largest = std::max(largest, row.workspace);
        }
        std::printf("%s %s: %zu plans, the largest workspace has %zu MiB\n", GetParam().c_str(), name_of(p),
                    convolutions.size(), largest >> 20);
        EXPECT_LT(largest, size_t(4) << 30);
        EXPECT_EQ(sums > 100, p == Precision::f16) << "convolutions that sum for a batch norm";
        EXPECT_EQ(norms > 50, p == Precision::f16) << "that normalise their input";
        std::printf("%zu sum for a batch norm, %zu do one\n", sums, norms);
    }
}

// Four threads call cuDNN itself at once.
TEST_P(CudaPlansOf, ThreadsBuildWhatOneThreadBuilds) {
    if (!plans_f16(cudnnGetVersion(), find_chip(GetParam()).capability)) GTEST_SKIP() << "needs a newer cuDNN for f16";
    std::vector<NamedPlan> plans;
    for (const NamedPlan& plan : plans_of(cuda_graph("resnet18", 32, 3, 10, Precision::f16), 64, {Precision::f16}))
        if (!compiled(plan.spec)) plans.push_back(plan);
    ASSERT_GT(plans.size(), 20u);
    const std::vector<PlanRow> rows = plan_rows(plans, GetParam());
    const Cudnn cudnn = Cudnn::of_chip(chip_description(GetParam()));
    PlanBuilder builder(4);
    for (const NamedPlan& plan : plans)
        builder.add(plan.spec.key(), plan.spec.family(), [&cudnn, &plan](const std::stop_token& stop) {
            return build_candidates(cudnn, plan.spec, "", true, stop);
        });
    for (const PlanRow& row : rows) {
        const std::string key = row.plan.spec.key();
        const BuiltGraph built = builder.take(key, [] {}).value();
        ASSERT_FALSE(built.attempts.empty()) << key;
        const auto [last, attempt] = *built.attempts.rbegin();
        EXPECT_EQ(attempt.built, row.state == PlanRow::built) << key;
        EXPECT_EQ(built.graph->candidates(), row.candidates) << key;
        EXPECT_EQ(built.graph->name(last), row.engine) << key;
        EXPECT_EQ(built.graph->workspace(last), row.workspace) << key;
    }
}

// Fused graphs compile for the device, so cuDNN lists engines for them, except for a batch norm
// with a residual and no ReLU. Each one has a fallback. This tests a sample: without a driver
// nothing is compiled, which would take half a second per graph.
TEST_P(CudaPlansOf, FusedGraphsAreListedOrFallBack) {
    for (const Precision p : {Precision::bf16, Precision::f16}) {
        if (p == Precision::f16 && !plans_f16(cudnnGetVersion(), find_chip(GetParam()).capability)) continue;
        std::map<std::string, NamedPlan> sample;  // one per kind and fusion
        for (const NamedPlan& plan : benchmark_plans(p)) {
            const PlanSpec& s = plan.spec;
            if (compiled(s))
                sample.emplace(std::to_string(s.kind) + (s.add ? "+" : "") + (s.relu ? "r" : "") +
                                   (s.statistics ? "s" : "") + (s.x.c % 16 ? "odd" : ""),
                               plan);
        }
        EXPECT_GE(sample.size(), p == Precision::bf16 ? 9u : 7u);
        std::vector<NamedPlan> plans;
        for (const auto& [kind, plan] : sample) plans.push_back(plan);
        const double before = cpu_seconds();
        const std::vector<PlanRow> rows = plan_rows(plans, GetParam());
        if (load_driver_or_stub() != Driver::real) {
            EXPECT_LT(cpu_seconds() - before, 0.1 * double(plans.size())) << "something compiled, in vain";
        }
        for (const PlanRow& row : rows) {
            const PlanSpec& s = row.plan.spec;
            const bool without = s.kind == PlanSpec::norm && s.add && !s.relu;  // PyramidNet's last norm of a block
            EXPECT_EQ(row.state == PlanRow::missing, without) << s.key();
            EXPECT_EQ(row.candidates == 0, without) << s.key();
            EXPECT_NE(row.fallback, "") << row.plan.spec.key();
        }
    }
}

// All-reduces, which keep 32 multiprocessors, run at the same time.
TEST_P(CudaPlansOf, NormsOnAPartOfTheDeviceHaveEngines) {
    const BatchNorm norm{0, 1, 0, 1, 2, 3, 1e-5f, 0.1f};
    std::vector<NamedPlan> plans;
    for (const PlanSpec::Kind kind : {PlanSpec::norm, PlanSpec::norm_gradient})
        for (const int multiprocessors : {0, 76}) {
            PlanSpec s = norm_spec(kind, norm, {64, 56, 56, 64}, DType::bf16);
            s.multiprocessors = multiprocessors;
            plans.push_back({"norm", s, 1});
        }
    for (const PlanRow& row : plan_rows(plans, GetParam())) EXPECT_GT(row.candidates, 0) << row.plan.spec.key();
}

TEST_P(CudaPlansOf, TheTableNamesEngineAndWorkspace) {
    const std::string table = plan_table(cuda_graph("mnist-conv", 28, 1, 10, Precision::bf16),
                                         {.batch = 64, .precision = Precision::bf16}, GetParam());
    for (const char* word :
         {"conv1", "conv2", "fc1", "fc2", "built", "eng", "conv-weight-gradient bf16 n64 28x28x8->24x24x16 k5 s1 p0"})
        EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
}

// NCCL keeps 32 of an H100's 132 multiprocessors.
TEST(CudaPlansOf, TheTableIsOfTheRanksAndTheWayThatAreNamed) {
    GraphBuilder builder("one norm", 8, 8, 8, 10);
    const ValueId x = builder.conv("conv", builder.input(), 16, 3, 1, 1, kaiming_fan_out(3, 16)),
                  y = builder.relu(builder.batch_norm("norm", x));
    const Graph g = with_precision(fuse(builder.finish(builder.linear("fc", y, 10), 0)), Precision::bf16);
    const auto table = [&](int ranks, NormBy by) {
        return plan_table(g, {.batch = 2, .precision = Precision::bf16, .norm_by = by, .ranks = ranks}, "h100");
    };
    // The first convolution has no data gradient. The layer's are 8 blocks each.
    const std::string pairs = " multiprocessors have room for both: in 1 of 1 layers: fc\n";
    const StepSpec in_turn{.batch = 2, .precision = Precision::bf16, .one_stream = true};
    const std::string alone = table(1, NormBy::plans), both = table(2, NormBy::plans),
                      kernels = table(2, NormBy::kernels);
    EXPECT_NE(alone.find(" 132" + pairs), std::string::npos) << alone;
    EXPECT_NE(both.find(" 100" + pairs), std::string::npos) << both;
    EXPECT_EQ(plan_table(g, in_turn, "h100").find("side by side"), std::string::npos);
    EXPECT_NE(alone.find("norm-gradient"), std::string::npos);
    EXPECT_EQ(alone.find(" sm100"), std::string::npos);
    EXPECT_NE(alone.find("\non several ranks"), std::string::npos);
    EXPECT_NE(alone.find(" 100 multiprocessors"), std::string::npos);
    EXPECT_NE(both.find(" sm100"), std::string::npos);
    EXPECT_EQ(both.find("\non several ranks"), std::string::npos);
    EXPECT_EQ(kernels.find("norm"), std::string::npos) << kernels;
}

INSTANTIATE_TEST_SUITE_P(All, CudaPlansOf, testing::Values("a100", "h100"),
                         [](const auto& test) { return test.param; });

TEST(CudaPlansOf, AnUnknownChipIsNamed) { EXPECT_THROW(chip_description("k80"), Error); }

}  // namespace
}  // namespace convoy::test
