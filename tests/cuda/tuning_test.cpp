// Plans chosen on a device: what a warm start builds, what a cache may hold, and the choice when
// there is no time. Also that a dry run without a device equals training.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "backend/cuda/plans.h"
#include "backend/cuda_queries.h"
#include "backend/gpu/dry_run_backend.h"
#include "backend/gpu/plan_list.h"
#include "tests/cuda/graphs.h"
#include "tests/support/cluster.h"
#include "tests/support/step_runner.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "train/program.h"

namespace convoy::test {
namespace {

using namespace cuda;

std::set<std::string> keys(const std::vector<PlanSpec>& specs) {
    std::set<std::string> all;
    for (const PlanSpec& s : specs) all.insert(s.key());
    return all;
}

std::string slurp(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

class CudaTuning : public testing::Test {
protected:
    void SetUp() override {
        const std::string reason = cuda_unavailable();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }
    /// Decides like CudaBackend, with a separate cache. `built`: the number of plans built.
    GpuAlgorithms selected(double seconds, int* built = nullptr, int threads = 0) {
        const Stream stream;
        const Cudnn cudnn(stream.get());
        Plans plans(cudnn, stream.get(), {.path = path_, .seconds = seconds, .threads = threads});
        const Timing timing{[&](const PlanSpec& s) { return plans.time(s); },
                            [&](const KernelSpec& s) { return plans.time(s); }};
        const ProgramShape program{graph_, 4, true, flow_};
        const auto known = [&](const std::string& key) { return plans.known_time(key); };
        GpuAlgorithms algorithms;
        do {
            plans.expect(expected_plans(program, {Precision::f16}, known));
            algorithms = select_algorithms(program, {Precision::f16}, timing);
        } while (!plans.build(algorithms.plans()));
        plans.save();
        if (built) *built = plans.built();
        return algorithms;
    }

    TempDir dir_;
    const std::string path_ = dir_.path("plans.txt");
    const Graph graph_ = cuda_graph("resnet18", 8, 3, 10, Precision::f16);
    const GradientFlow flow_ = gradient_flow(graph_);
};

TEST_F(CudaTuning, AWarmStartBuildsOnlyWhatItRuns) {
    int cold = 0;
    const std::set<std::string> first = keys(selected(INFINITY, &cold).plans());
    for (const int threads : {0, 3}) {
        int warm = 0;
        EXPECT_EQ(keys(selected(INFINITY, &warm, threads).plans()), first) << "the same choices";
        EXPECT_EQ(warm, int(first.size()));
        EXPECT_GT(cold, warm + 20) << "alternatives that lost were built to be timed";
    }
}

// Others may be able to write in the folder of a cache. Reading a pipe would wait for ever.
TEST_F(CudaTuning, ACacheThatIsAPipeOrHugeIsNotRead) {
    const auto knows = [&](const std::string& key) {
        const Stream stream;
        const Cudnn cudnn(stream.get());
        return Plans(cudnn, stream.get(), {.path = path_}).known_time(key).has_value();
    };
    const std::string key = *keys(selected(INFINITY).plans()).begin();
    EXPECT_TRUE(knows(key));
    std::filesystem::resize_file(path_, (16 << 20) + 1);
    EXPECT_FALSE(knows(key));
    std::filesystem::remove(path_);
    ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
    EXPECT_FALSE(knows(key));
}

// The cache names an engine that this driver does not have: the engines that it replaced are timed
// again.
TEST_F(CudaTuning, AnEngineThatIsGoneIsChosenAnew) {
    selected(INFINITY);
    TunedPlans tuned = parse_tuned_plans(slurp(path_));
    int changed = 0;
    for (auto& [key, plan] : tuned) {
        if (key.find("normalise") == std::string::npos && key.rfind("norm", 0) != 0) continue;
        plan = {"no-such-engine", 1e-3f};
        ++changed;
    }
    ASSERT_GT(changed, 5);
    std::ofstream(path_) << text_of(tuned);
    const std::set<std::string> used = keys(selected(INFINITY).plans());
    int anew = 0;
    for (const auto& [key, plan] : parse_tuned_plans(slurp(path_))) {
        const bool gone = plan.engine == "no-such-engine";
        EXPECT_FALSE(gone && used.contains(key)) << key;
        anew += !gone && tuned.contains(key) && tuned[key].engine == "no-such-engine";
    }
    EXPECT_GT(anew, 0) << "no plan that was gone was asked for";
}

// Another rank may have found none because it ran out of memory.
TEST_F(CudaTuning, WhatAnotherRankDidNotFindIsNotRemembered) {
    const Stream stream;
    const Cudnn cudnn(stream.get());
    Plans plans(cudnn, stream.get(), {.path = path_, .seconds = INFINITY});
    plans.take({{"found none", {}}, {"not timed", {"engine", untimed}}}, true);
    plans.save();
    EXPECT_FALSE(std::filesystem::exists(path_));
    plans.take({{"found", {"engine", 2}}}, true);
    plans.save();
    EXPECT_EQ(slurp(path_), "found = 2 engine\n");
}

TEST_F(CudaTuning, WithoutTimeTheFirstPlansServeAndNothingIsRemembered) {
    int built = 0;
    const GpuAlgorithms algorithms = selected(0, &built);
    for (const OpAlgorithm& algorithm : algorithms.per_op) {
        EXPECT_EQ(algorithm.norm.forward_by, NormAlgorithm::kernels);
        EXPECT_EQ(algorithm.norm.gradient_by, NormAlgorithm::kernels);
        if (algorithm.gemm.data_gradient) {
            EXPECT_FALSE(algorithm.gemm.data_gradient->add) << "an addition follows";
        }
    }
    EXPECT_LE(built, 2 * int(algorithms.plans().size())) << "on the emulated device the first cannot run";
    EXPECT_FALSE(std::filesystem::exists(path_));
}

// On the emulated device the first plan that is built cannot run: it must not be chosen untested.
TEST_F(CudaTuning, WithoutTimeTrainingRunsAllTheSame) {
    BackendOptions options;
    options.precision = Precision::f16;
    options.tune_seconds = 0;
    const std::unique_ptr<Backend> gpu = make_backend("cuda", options, test_comm());
    StepRunner run(*gpu, cuda_graph("mnist-conv", 28, 1, 10, Precision::f16), 19);  // a batch that no cache has
    const double first = run.step().loss, second = run.step().loss;
    EXPECT_NE(first, second) << "the weights moved";
    EXPECT_TRUE(std::isfinite(first) && std::isfinite(second));
}

/// Returns a backend with a test's options.
std::unique_ptr<Backend> backend_with(Precision p, NormBy by) {
    BackendOptions options;
    options.precision = p;
    options.norm_by = by;
    return make_backend("cuda", options, test_comm());
}

TEST_F(CudaTuning, TrainingRunsPlansOfTheTable) {
    for (const char* model : {"resnet18", "airbench94"})
        for (const Precision p : {Precision::f32, Precision::bf16, Precision::f16})
            for (const NormBy by : {NormBy::measured, NormBy::convolutions, NormBy::plans, NormBy::kernels}) {
                const Graph g = cuda_graph(model, 32, 3, 10, p);
                const GradientFlow flow = gradient_flow(g);
                std::set<std::string> table;
                for (const NamedPlan& plan : plans_of(g, 2, {p, by})) table.insert(plan.spec.key());
                const auto algorithms = backend_with(p, by)->select({g, 2, true, flow});
                for (const PlanSpec& s : dynamic_cast<const GpuAlgorithms&>(*algorithms).plans())
                    EXPECT_TRUE(table.contains(s.key())) << s.key();
            }
}

// The search for the first NaN reads what an op wrote. If a norm does the pool before it, the
// search reads the pool's output after the norm's launch.
TEST_F(CudaTuning, ProbesOfAFusedPoolComeAfterTheStepThatWritesIt) {
    const std::unique_ptr<Backend> gpu = backend_with(Precision::f16, NormBy::kernels);
    const Graph g = cuda_graph("airbench94", 32, 3, 10, Precision::f16);
    const OptimizerSpec spec;
    const State state(g, *gpu, &spec);
    const PreparedProgram prepared = prepare_program(g, *gpu, {2, 2, 0, true});
    const Buffer arena = gpu->allocate(prepared.memory.bytes), counters = gpu->allocate(sizeof(Counters));
    const Program p = lower({g, *gpu, state, arena, 1, false, static_cast<Counters*>(counters.get()), nullptr},
                            prepared, cut_buckets(state.counts(), size_t(1) << 20), nullptr);
    int fused = 0;
    for (size_t i = 0; i < p.tape.size(); ++i) {
        const LaunchId& id = p.tape[i].id;
        if (id.fused_op < 0 || id.phase != LaunchPhase::forward) continue;
        ++fused;
        EXPECT_EQ(std::count_if(p.probes.begin(), p.probes.end(), [&](const Probe& q) { return q.after == i + 1; }), 2)
            << id.name;
    }
    EXPECT_EQ(fused, 3);
}

/// Returns what each op of a program keeps, and "w" if its output is in memory.
std::string kept(const PreparedProgram& prepared) {
    std::string text;
    for (const OpMemory& m : prepared.algorithms->memory)
        text += std::to_string(m.saved) + (m.writes_value ? "w " : " ");
    return text;
}

TEST_F(CudaTuning, ADryRunLaysOutTheMemoryOfTrainingWithTheNamedAlgorithm) {
    for (const char* model : {"resnet18", "airbench94"})
        for (const Precision p : {Precision::f32, Precision::f16}) {
            const Graph g = cuda_graph(model, 32, 3, 10, p);
            std::set<std::string> all;
            for (const NormBy by : {NormBy::kernels, NormBy::plans, NormBy::convolutions}) {
                DryRunBackend dry_run("", size_t(1) << 40, "", {.precision = p, .norm_by = by}, 1);
                const std::unique_ptr<Backend> gpu = backend_with(p, by);
                for (const bool training : {true, false}) {
                    const PreparedProgram prepared = prepare_program(g, dry_run, {2, 2, 0, training}),
                                          real = prepare_program(g, *gpu, {2, 2, 0, training});
                    EXPECT_EQ(prepared.memory.bytes, real.memory.bytes) << model << int(by);
                    EXPECT_EQ(kept(prepared), kept(real)) << model << int(by);
                    if (training) all.insert(kept(prepared));
                }
            }
            if (p == Precision::f16 && g.model == "resnet18") {
                EXPECT_EQ(all.size(), 3u) << "algorithms take the same: the case is none";
            }
        }
}

// An engine that faults ends the process. The next process reads which engine it was.
TEST_F(CudaTuning, AnEngineThatEndedAProcessIsNotTriedAgain) {
    if (!is_emulated()) GTEST_SKIP() << "only the emulated device has an engine that kills";
    const std::string key = "conv-weight-gradient f16 n2 12x12x16", cache = dir_.path("convoy");
    const std::string bench = "env XDG_CACHE_HOME=" + dir_.path() + " EMULATED_FATAL_PLAN='" + key + "' " +
                              sibling("convoy") + " bench --device cuda --model mnist-conv --image-size 28x28x1 " +
                              "--precision f16 --batch-per-rank 2 --warmup 1 --steps 1 --profile-steps 0";
    EXPECT_EQ(run(bench).code, 128 + SIGKILL);
    std::set<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(cache))
        if (entry.path().string().find(".trying-") != std::string::npos) left.insert(entry.path());
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(slurp(*left.begin()).find(key), 0u) << slurp(*left.begin());
    const Finished next = run(bench);
    EXPECT_EQ("", failure(next));
    EXPECT_EQ(count(next.err, "cuDNN's engine broken is not tried for '" + key), 1) << next.err;
    EXPECT_NE(next.err.find("remove " + *left.begin()), std::string::npos) << next.err;
    std::filesystem::remove(*left.begin());
    for (const auto& entry : std::filesystem::directory_iterator(cache)) std::filesystem::remove(entry);
    EXPECT_EQ(run(bench).code, 128 + SIGKILL) << "without the file it is tried again";
}

}  // namespace
}  // namespace convoy::test
