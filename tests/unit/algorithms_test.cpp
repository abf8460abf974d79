// Algorithms of ops on a GPU, selected from times that the tests make up: each selection is tested
// both ways.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "backend/gpu/algorithms.h"
#include "backend/gpu/dry_run_backend.h"
#include "backend/gpu/plan_list.h"
#include "tests/cuda/graphs.h"
#include "train/program.h"

namespace convoy::test {
namespace {

using namespace cuda;

/// Microseconds by the beginning of a key; the longest beginning that fits counts.
using Times = std::map<std::string, float>;

Timing timing(const Times& times) {
    const auto find = [times](const std::string& key) {
        float found = 1;
        size_t longest = 0;
        for (const auto& [begin, t] : times)
            if (begin.size() >= longest && key.compare(0, begin.size(), begin) == 0) found = t, longest = begin.size();
        return found;
    };
    return {[find](const PlanSpec& s) { return find(s.family() + "|"); },
            [find](const KernelSpec& s) { return find(s.key()); }};
}

struct Counts {
    int kernels = 0, plan = 0, sums = 0, reader = 0, synchronised = 0;
    bool operator==(const Counts&) const = default;
};
void PrintTo(const Counts& c, std::ostream* out) {
    *out << c.kernels << " by kernels, " << c.plan << " by plans, " << c.sums << " with sums, " << c.reader
         << " in their reader, " << c.synchronised << " over ranks";
}
Counts counts(const Graph& g, const GpuAlgorithms& algorithms, NormAlgorithm::By NormAlgorithm::* of) {
    Counts c;
    for (size_t i = 0; i < g.ops.size(); ++i) {
        if (!std::holds_alternative<BatchNorm>(g.ops[i])) continue;
        const NormAlgorithm::By by = algorithms.per_op[i].norm.*of;
        ++(by == NormAlgorithm::kernels  ? c.kernels
           : by == NormAlgorithm::plan   ? c.plan
           : by == NormAlgorithm::sums   ? c.sums
           : by == NormAlgorithm::reader ? c.reader
                                         : c.synchronised);
    }
    return c;
}

GpuAlgorithms selected(const Graph& g, Precision p, const Times& times, NormBy norm_by = NormBy::measured,
                       bool synchronised = false) {
    const GradientFlow flow = gradient_flow(g);
    return select_algorithms({g, 4, true, flow}, {p, norm_by, synchronised}, timing(times));
}

// ResNet-18's 20 norms: 8 end in a ReLU that one convolution reads.
class Algorithms18 : public testing::Test {
protected:
    const Graph g = cuda_graph("resnet18", 32, 3, 10, Precision::f16);
    Counts forward(const Times& times, NormBy by = NormBy::measured, bool synchronised = false) const {
        return counts(g, selected(g, Precision::f16, times, by, synchronised), &NormAlgorithm::forward_by);
    }
    Counts gradient(const Times& times, NormBy by = NormBy::measured, bool synchronised = false) const {
        return counts(g, selected(g, Precision::f16, times, by, synchronised), &NormAlgorithm::gradient_by);
    }
};

constexpr float no_engine = missing;

TEST_F(Algorithms18, NormsTakeThePlanOrTheKernelsWhicheverIsFaster) {
    const Times none = {{"conv f16 statistics|", no_engine}, {"conv-data-gradient f16 statistics|", no_engine}};
    Times plans = none, kernels = none;
    plans.insert({{"norm f16", 5}, {"norm-gradient f16", 5}, {"kernels-norm", 6.5f}});
    kernels.insert({{"norm f16", 7}, {"norm-gradient f16", 7}, {"kernels-norm", 6.5f}});
    EXPECT_EQ(forward(plans), (Counts{.plan = 20}));
    EXPECT_EQ(forward(kernels), (Counts{.kernels = 20}));
    EXPECT_EQ(gradient(plans), (Counts{.plan = 20}));
    EXPECT_EQ(gradient(kernels), (Counts{.kernels = 20}));
    // A residual makes a kernel mask dy first, so for those 8: 5 + 2 > 6.5.
    plans["kernels-residual-gradient"] = 2;
    EXPECT_EQ(gradient(plans), (Counts{.kernels = 8, .plan = 12}));
}

TEST_F(Algorithms18, ConvolutionsSumWhereThatAndTheRestIsFaster) {
    // Separate: 10 + 5; fused: 12 and 2.9, or 12 and 3.1.
    Times times = {{"conv f16|", 10}, {"conv f16 statistics|", 12}, {"conv f16 normalise statistics|", no_engine},
                   {"norm f16", 6},   {"kernels-norm ", 5},         {"kernels-normalise", 2.9f}};
    EXPECT_EQ(forward(times), (Counts{.sums = 20}));
    times["kernels-normalise"] = 3.1f;
    EXPECT_EQ(forward(times), (Counts{.kernels = 20}));
    times["conv f16 statistics|"] = untimed;
    times["norm f16"] = no_engine, times["kernels-norm "] = untimed;
    EXPECT_EQ(forward(times), (Counts{.kernels = 20})) << "what could not be timed is not chosen";
}

TEST_F(Algorithms18, ANormMovesIntoItsReaderWhereThatIsFaster) {
    // Separate: 12 + 8 + 3; in the reader: 13 + 9 + 0.9, or 13 + 9 + 1.1.
    Times times = {{"conv f16|", 10},
                   {"conv f16 statistics|", 12},
                   {"conv f16 normalise statistics|", 13},
                   {"conv-weight-gradient f16|", 8},
                   {"conv-weight-gradient f16 normalise|", 9},
                   {"kernels-norm ", 50},
                   {"norm f16", 50},
                   {"kernels-normalise", 3},
                   {"kernels-statistics", 0.9f}};
    EXPECT_EQ(forward(times), (Counts{.sums = 12, .reader = 8}));
    const GpuAlgorithms algorithms = selected(g, Precision::f16, times);
    for (size_t i = 0; i < g.ops.size(); ++i) {
        const bool moved = std::holds_alternative<BatchNorm>(g.ops[i]) &&
                           algorithms.per_op[i].norm.forward_by == NormAlgorithm::reader;
        EXPECT_EQ(algorithms.memory[i].writes_value, !moved) << i;
        if (const auto* conv = std::get_if<Conv>(&g.ops[i])) {
            const GemmAlgorithm& p = algorithms.per_op[i].gemm;
            EXPECT_EQ(p.forward->normalise, p.weight_gradient->normalise);
            if (p.forward->normalise) {
                EXPECT_EQ(std::get<BatchNorm>(g.ops[p.norm]).y, conv->x);
            }
        }
    }
    times["kernels-statistics"] = 1.1f;
    EXPECT_EQ(forward(times), (Counts{.sums = 20}));
    times["kernels-statistics"] = 0.9f;
    times["conv-weight-gradient f16 normalise|"] = no_engine;
    EXPECT_EQ(forward(times), (Counts{.sums = 20})) << "both of its readers must be able to";
}

TEST_F(Algorithms18, GradientsTakeTheSumsOfTheDataGradientWhereThatIsFaster) {
    // Separate: 8 + 5; fused: 9 + 3.9 or 9 + 4.1.
    Times times = {{"conv-data-gradient f16|", 8},   {"conv-data-gradient f16 statistics|", 9},
                   {"norm-gradient f16", 5},         {"kernels-norm-gradient", 5.5f},
                   {"kernels-residual-gradient", 0}, {"kernels-gradient-of-sums", 3.9f}};
    EXPECT_EQ(gradient(times), (Counts{.plan = 12, .sums = 8}));
    times["kernels-gradient-of-sums"] = 4.1f;
    EXPECT_EQ(gradient(times), (Counts{.plan = 20}));
}

TEST_F(Algorithms18, NormByNamesAnAlgorithm) {
    const Times times = {{"norm", 9}, {"conv f16 statistics|", 9}};
    EXPECT_EQ(forward(times), (Counts{.kernels = 20}));
    EXPECT_EQ(forward(times, NormBy::plans), (Counts{.plan = 20}));
    EXPECT_EQ(forward(times, NormBy::convolutions), (Counts{.sums = 12, .reader = 8}));
    EXPECT_EQ(gradient(times, NormBy::convolutions), (Counts{.kernels = 12, .sums = 8}));
    EXPECT_EQ(forward({{"kernels", 9}}, NormBy::kernels), (Counts{.kernels = 20}));
    EXPECT_EQ(forward(times, NormBy::convolutions, true), (Counts{.synchronised = 20})) << "statistics over ranks";
    EXPECT_EQ(gradient(times, NormBy::plans, true), (Counts{.synchronised = 20}));
}

TEST_F(Algorithms18, AnAdditionFollowsWhereThePlanThatAddsIsSlower) {
    const auto adding = [&](const Times& times) {
        int n = 0;
        for (const OpAlgorithm& algorithm : selected(g, Precision::f16, times).per_op)
            n += algorithm.gemm.data_gradient && algorithm.gemm.data_gradient->add;
        return n;
    };
    // The input of each of eight blocks has two gradients.
    EXPECT_EQ(adding({{"conv-data-gradient f16|", 8}, {"conv-data-gradient f16 add|", 10}, {"kernels-addition", 2}}),
              8);
    EXPECT_EQ(adding({{"conv-data-gradient f16|", 8}, {"conv-data-gradient f16 add|", 10}, {"kernels-addition", 1.9f}}),
              0);
    EXPECT_EQ(adding({{"conv-data-gradient f16 add|", no_engine}}), 0);
}

TEST_F(Algorithms18, WhatCouldNotBeTimedWinsNothing) {
    const Times all = {{"", untimed}};
    EXPECT_EQ(forward(all), (Counts{.kernels = 20}));
    EXPECT_EQ(gradient(all), (Counts{.kernels = 20}));
    EXPECT_EQ(forward(all, NormBy::plans), (Counts{.plan = 20})) << "unless it was asked for";
    EXPECT_EQ(gradient(all, NormBy::plans), (Counts{.plan = 20}));
    for (const OpAlgorithm& algorithm : selected(g, Precision::f16, all).per_op)
        EXPECT_FALSE(algorithm.gemm.data_gradient && algorithm.gemm.data_gradient->add);
}

TEST_F(Algorithms18, WhatCudnnDoesNotHaveIsNoted) {
    const GpuAlgorithms algorithms =
        selected(g, Precision::f16, {{"norm f16 relu|", no_engine}, {"norm f16 add relu|", 1}});
    EXPECT_EQ(algorithms.notes,
              std::set<std::string>{
                  "cuDNN has no engine, or none in time, for 'norm f16 relu' in some sizes: kernels/batchnorm runs"});
    EXPECT_TRUE(selected(g, Precision::f16, {}).notes.empty());
}

// The exact kernels are the only implementation in f32, so nothing is measured.
TEST(Algorithms, NothingCompetesInF32) {
    const Graph g = cuda_graph("resnet18", 32, 3, 10, Precision::f32);
    const GradientFlow flow = gradient_flow(g);
    const Timing refused{[](const PlanSpec& s) {
                             EXPECT_TRUE(!s.is_norm() && !s.statistics) << s.key();
                             return s.add ? missing : 1.0f;
                         },
                         [](const KernelSpec& s) {
                             ADD_FAILURE() << s.key();
                             return 1.0f;
                         }};
    select_algorithms({g, 4, true, flow}, {Precision::f32}, refused);
    for (const OpAlgorithm& algorithm : select_algorithms({g, 0, true, flow}, {Precision::f32}, refused).per_op)
        EXPECT_FALSE(algorithm.gemm.forward) << "a rank without samples multiplies nothing";
}

// airbench94: two norms in each of six blocks; the first norm of a block follows a 2 x 2 max-pool.
TEST(Algorithms, NormsByKernelsDoThePoolBeforeThem) {
    const Graph g = cuda_graph("airbench94", 32, 3, 10, Precision::f16);
    const GpuAlgorithms algorithms = selected(g, Precision::f16, {});
    int pools = 0;
    for (size_t i = 0; i < g.ops.size(); ++i) {
        const auto* pool = std::get_if<Pool>(&g.ops[i]);
        const bool before_norm = pool && i + 1 < g.ops.size() && std::holds_alternative<BatchNorm>(g.ops[i + 1]);
        EXPECT_EQ(algorithms.per_op[i].pool.by_norm, before_norm);
        EXPECT_EQ(algorithms.per_op[i].pool.gradient_by_norm, before_norm);
        EXPECT_EQ(algorithms.memory[i].writes_gradient, !before_norm);
        EXPECT_TRUE(algorithms.memory[i].writes_value);
        if (!before_norm) continue;
        ++pools;
        EXPECT_EQ(algorithms.per_op[i + 1].norm.pool, int(i));
        EXPECT_EQ(algorithms.per_op[i + 1].norm.pool_gradient, int(i));
        EXPECT_EQ(algorithms.memory[i].gradients_by, int(i + 1));
    }
    EXPECT_EQ(pools, 3);
}

// A value or gradient that is not stored has no buffer. The tensors it is computed from live until
// its last reader has run.
TEST(Algorithms, WhatIsInNoMemoryHasNoBuffer) {
    class Selected final : public DryRunBackend {
    public:
        Selected(const Times& times, NormBy by)
            : DryRunBackend("", size_t(1) << 40, "", {}, 1), times_(times), by_(by) {}
        std::shared_ptr<const Algorithms> select(const ProgramShape& o) override {
            return std::make_shared<GpuAlgorithms>(cuda::select_algorithms(o, {Precision::f16, by_}, timing(times_)));
        }

    private:
        const Times times_;
        const NormBy by_;
    };
    for (const char* model : {"resnet18", "airbench94"}) {
        const Graph g = cuda_graph(model, 32, 3, 10, Precision::f16);
        for (const NormBy by : {NormBy::kernels, NormBy::plans, NormBy::convolutions}) {
            Selected backend({}, by);
            const PreparedProgram prepared = prepare_program(g, backend, {4, 4, 0, true});
            const int n = int(g.ops.size());
            for (int i = 0; i < n; ++i) {
                const ValueId y = output_of(g.ops[i]);
                if (y == none) continue;
                const OpMemory& memory = prepared.algorithms->memory[i];
                EXPECT_EQ(prepared.value[y] != none, memory.writes_value);
                EXPECT_EQ(prepared.gradient[y] != none, memory.writes_gradient);
                if (memory.gradients_by != none) {
                    const ValueId x = inputs_of(g.ops[i])[0];
                    EXPECT_EQ(prepared.buffers[prepared.gradient[x]].first, 2 * n - memory.gradients_by);
                }
                if (memory.writes_value) continue;
                const ValueId x = inputs_of(g.ops[i])[0];
                EXPECT_GE(prepared.buffers[prepared.value[x]].last, 2 * n - i);
            }
        }
    }
}

// Threads build expected plans before anything is timed. A plan that was not expected is built
// late; an expected one that is not requested is built in vain.
TEST(Algorithms, WhatIsAskedForIsExpectedWhateverTheTimes) {
    std::minstd_rand random(7);
    for (const char* model : {"resnet18", "airbench94", "pyramidnet"})
        for (const Precision p : {Precision::f32, Precision::bf16, Precision::f16})
            for (const NormBy by : {NormBy::measured, NormBy::convolutions, NormBy::plans, NormBy::kernels}) {
                const Graph g = cuda_graph(model, 32, 3, 10, p);
                const GradientFlow flow = gradient_flow(g);
                const ProgramShape program{g, 4, true, flow};
                const AlgorithmOptions options{p, by, false, 76};
                std::set<std::string> expected, asked;
                for (const PlanSpec& s : expected_plans(program, options, [](auto&) { return std::nullopt; }))
                    EXPECT_TRUE(expected.insert(s.key()).second) << "twice: " << s.key();
                for (int times = 0; times < 30; ++times) {
                    std::map<std::string, float> measured;
                    const auto time = [&](const std::string& key) {
                        const bool none = random() % 16 == 0 && key.rfind("kernels", 0) != 0;
                        return measured.try_emplace(key, none ? missing : float(random() % 100)).first->second;
                    };
                    select_algorithms(program, options,
                                      {[&](const PlanSpec& s) { return asked.insert(s.key()), time(s.key()); },
                                       [&](const KernelSpec& s) { return time(s.key()); }});
                    const auto known = [&](const std::string& key) {
                        const auto at = measured.find(key);
                        return at == measured.end() ? std::nullopt : std::optional(at->second);
                    };
                    EXPECT_TRUE(expected_plans(program, options, known).empty()) << "a warm start builds losers";
                }
                std::string wrong;
                for (const std::string& key : asked) wrong += expected.contains(key) ? "" : "\n not expected: " + key;
                for (const std::string& key : expected) wrong += asked.contains(key) ? "" : "\n in vain: " + key;
                EXPECT_EQ("", wrong) << model << " " << name_of(p) << " " << int(by);
            }
}

// All-reduces overlap with backward. Of all plans, only those of norms' gradients leave them
// multiprocessors.
TEST_F(Algorithms18, PlansOfNormsKeepToTheirMultiprocessors) {
    const GradientFlow flow = gradient_flow(g);
    const GpuAlgorithms algorithms =
        select_algorithms({g, 4, true, flow}, {Precision::f16, NormBy::plans, false, 100}, timing({{"kernels", 9.0f}}));
    int norms = 0;
    for (const PlanSpec& s : algorithms.plans()) {
        const bool is_gradient = s.kind == PlanSpec::norm_gradient;
        norms += is_gradient;
        EXPECT_EQ(s.multiprocessors, is_gradient ? 100 : 0) << s.key();
        EXPECT_EQ(s.key().ends_with(" sm100"), is_gradient) << s.key();
    }
    EXPECT_GT(norms, 3);
}

}  // namespace
}  // namespace convoy::test
