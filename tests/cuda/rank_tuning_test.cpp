// Choices that one rank makes for the others, and their copy in a checkpoint.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/rank_tuning.h"
#include "backend/cuda_queries.h"
#include "tests/cuda/graphs.h"
#include "tests/runs/resume.h"
#include "tests/support/test_comm.h"
#include "train/checkpoint.h"
#include "train/program.h"

namespace convoy::test {
namespace {

using namespace cuda;

std::string slurp(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

const std::string& chip() {
    static const std::string name = describe_device(0).name;
    return name;
}

/// Writes a cache below `folder`, and points XDG_CACHE_HOME there. Every plan takes `plans`, every
/// work of our kernels `kernels`; each plan is named `engine`.
void write_cache(const std::string& folder, const std::string& engine, float plans, float kernels) {
    TunedPlans cache;
    const Timing timing{[&](const PlanSpec& s) {
                            // no fusions: only cuDNN's norm and ours are compared
                            const bool fused = s.statistics || s.normalise || s.add;
                            cache[s.key()] = fused ? TunedPlan{} : TunedPlan{engine, plans};
                            return fused ? missing : plans;
                        },
                        [&](const KernelSpec& s) {
                            cache[s.key()] = {"kernel", kernels};
                            return kernels;
                        }};
    const Graph g = cuda_graph("resnet18", 8, 3, 10, Precision::bf16);
    const GradientFlow flow = gradient_flow(g);
    for (const int batch : {1, 2, 3, 4, 5, 6})
        for (const bool training : {false, true})
            select_algorithms({g, batch, training, flow}, {Precision::bf16}, timing);
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    const std::string path = cache_path(chip(), Cudnn::version());
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text_of(cache);
}

/// Returns how the batch norms of a program run, one letter each.
std::string norms_of(const Algorithms& algorithms) {
    std::string text;
    for (const OpAlgorithm& w : dynamic_cast<const GpuAlgorithms&>(algorithms).per_op)
        text += std::to_string(w.norm.forward_by) + std::to_string(w.norm.gradient_by);
    return text;
}

class CudaRankTuning : public ResumeTest {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    }
    /// Returns true on a rank of a test that started itself on `ranks` ranks.
    bool is_rank(int ranks) {
        if (test_comm().size() == ranks) return true;
        EXPECT_EQ("", problem_on_ranks(ranks));
        return false;
    }
    static BackendOptions options() {
        BackendOptions o;
        o.precision = Precision::bf16;
        o.share_device = true;
        return o;
    }
    static std::string engine() {
        const Stream stream;
        const Cudnn cudnn(stream.get());
        const CudnnGraph graph(cudnn, {PlanSpec::conv, {1, 4, 4, 8}, {1, 4, 4, 8}, 1, 1, 0, DType::bf16});
        return graph.name(graph.candidates() - 1);
    }
    static Options small_bf16(Options changes = {}) {
        for (const auto& [name, value] :
             Options{{"device", "cuda"}, {"model", "resnet18"}, {"precision", "bf16"}, {"batch-size", "4"}})
            changes.try_emplace(name, value);
        return changes;
    }

    const Graph graph_ = cuda_graph("resnet18", 8, 3, 10, Precision::bf16);
    const GradientFlow flow_ = gradient_flow(graph_);
};

// Each rank has a cache with the opposite times.
TEST_F(CudaRankTuning, RanksSelectAsTheFirstOfTheirKindMeasured) {
    if (!is_rank(2)) return;
    Comm& comm = test_comm();
    const int rank = comm.rank();
    write_cache(dir_.path("cache"), engine(), rank == 0 ? 1.0f : 9.0f, rank == 0 ? 9.0f : 1.0f);
    const std::string before = slurp(cache_path(chip(), Cudnn::version()));
    const std::unique_ptr<Backend> gpu = make_backend("cuda", options(), comm);
    const ProgramShape program{graph_, 2, true, flow_};
    const std::vector<std::string> alone = comm.gather_all(norms_of(*gpu->select(program)));
    EXPECT_NE(alone[0], alone[1]) << "the case is none";
    gpu->tune(program);
    const std::vector<std::string> agreed = comm.gather_all(norms_of(*gpu->select(program)));
    EXPECT_EQ(agreed[0], alone[0]);
    EXPECT_EQ(agreed[1], alone[0]);
    EXPECT_EQ(slurp(cache_path(chip(), Cudnn::version())), before) << "what was measured elsewhere replaced this";
}

// Ranks 0 and 1 have two samples, rank 2 one: it measures for itself, because the others do not run
// that batch.
TEST_F(CudaRankTuning, ARankWithAnotherBatchMeasuresIt) {
    if (!is_rank(3)) return;
    Comm& comm = test_comm();
    const int batch = comm.rank() < 2 ? 2 : 1;
    ::setenv("XDG_CACHE_HOME", dir_.path("cache").c_str(), 1);
    const std::unique_ptr<Backend> gpu = make_backend("cuda", options(), comm);
    gpu->tune({graph_, batch, true, flow_});
    const TunedDevices all = parse_tuned_devices(gpu->tuning());
    ASSERT_EQ(all.size(), 1u);
    int twos = 0, ones = 0;
    for (const auto& [key, plan] : all.begin()->second) {
        twos += key.find(" n2 ") != std::string::npos;
        ones += key.find(" n1 ") != std::string::npos;
    }
    EXPECT_GT(twos, 30);
    EXPECT_GT(ones, 30);
    const std::string cache = slurp(cache_path(chip(), Cudnn::version()));
    EXPECT_EQ(!cache.empty(), comm.rank() == 0) << "rank 0 writes the cache, alone";
    if (comm.rank() == 0) {
        EXPECT_EQ(parse_tuned_plans(cache).size(), all.begin()->second.size());
    }
}

// Building takes 0.3 s per candidate, and one core builds them one after the other. The second rank
// waits several times as long as its watchdog allows.
TEST_F(CudaRankTuning, ARankThatWaitsForTheTuningIsNotStalled) {
    make_data(dir_.path("small"), 8, 4, "28x28x1");
    const std::string command = "export EMULATED_BUILD_SECONDS=0.3 XDG_CACHE_HOME=" + dir_.path("cache") + "; " +
                                launch_command(2,
                                               train("slow", small_bf16({{"data", dir_.path("small")},
                                                                         {"model", "mnist-conv"},
                                                                         {"epochs", "1"},
                                                                         {"no-eval", "true"},
                                                                         {"share-device", "true"},
                                                                         {"watchdog", "3s"}})),
                                               200);
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    const auto start = Clock::now();
    const Finished f = run(command);
    sched_setaffinity(0, sizeof all, &all);
    EXPECT_EQ("", failure(f));
    if (chip().find("emulated") != std::string::npos) {
        EXPECT_GT(seconds_since(start), 9) << "nothing was waited for";
    }
}

// The caches of the two runs have opposite times: the resumed run follows its checkpoint.
TEST_F(CudaRankTuning, AResumedRunChoosesAsBeforeBitForBit) {
    make_data(dir_.path("small"), 8, 4, "8x8x3");
    const Options once = small_bf16({{"data", dir_.path("small")}, {"epochs", "1"}}),
                  twice = small_bf16({{"data", dir_.path("small")}, {"epochs", "2"}});
    const auto with = [&](const std::string& cache, const std::string& what) {
        return failure(run("export XDG_CACHE_HOME=" + dir_.path(cache) + "; " + launch_command(1, what, 200)));
    };
    write_cache(dir_.path("plans"), engine(), 1, 9);
    write_cache(dir_.path("kernels"), engine(), 9, 1);
    ASSERT_EQ("", with("plans", train("whole", twice)));
    ASSERT_EQ("", with("kernels", train("other", twice)));
    EXPECT_NE(tensors(dir_.path("whole") + "/model.h5"), tensors(dir_.path("other") + "/model.h5"))
        << "the choice makes no difference: the case is none";
    ASSERT_EQ("", with("plans", train("part", once)));
    ASSERT_EQ("", with("kernels", train("part", resumed(twice))));
    expect_same("whole", "part");
    EXPECT_EQ(read_tuning(checkpoints("part").back()), read_tuning(checkpoints("whole").back()));
}

TEST_F(CudaRankTuning, TuningOfAnotherDeviceIsSaidToBeLeftAside) {
    const std::unique_ptr<Backend> gpu = make_backend("cuda", options(), test_comm());
    testing::internal::CaptureStderr();
    gpu->restore_tuning("[Another GPU, cuDNN 1.2.3]\nkey = 1 engine\n");
    EXPECT_NE(testing::internal::GetCapturedStderr().find("Another GPU, cuDNN 1.2.3"), std::string::npos);
    EXPECT_NE(gpu->tuning().find("[Another GPU, cuDNN 1.2.3]\nkey = 1 engine\n"), std::string::npos)
        << "the next run may have such a device again";
}

// The checkpoint is from the GPU that rank 0 has again; rank 1 now has another one.
TEST_F(CudaRankTuning, RankZeroSaysWhatOnlyAnotherRankChoosesAnew) {
    if (!is_rank(2)) return;
    Comm& comm = test_comm();
    ::setenv("XDG_CACHE_HOME", dir_.path("cache").c_str(), 1);
    DeviceInfo info = describe_device(0);
    const std::string first = info.name;
    if (!comm.root()) info.name = "Another GPU";
    CudaBackend gpu(options(), info, comm, 1, "");
    gpu.connect();
    testing::internal::CaptureStderr();
    gpu.restore_tuning("[" + first + ", cuDNN " + Cudnn::version() + "]\nkey = 1 engine\n");
    gpu.tune({graph_, 2, true, flow_});
    gpu.tune({graph_, 1, true, flow_});
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(said, "for Another GPU, cuDNN " + Cudnn::version() + " they are chosen again"), comm.root() ? 1 : 0)
        << said;
}

// A plan that the checkpoint names but that cannot be built is chosen again, with a message.
TEST_F(CudaRankTuning, AnEngineOfTheCheckpointThatIsGoneIsChosenAnew) {
    ::setenv("XDG_CACHE_HOME", dir_.path("cache").c_str(), 1);
    std::unique_ptr<Backend> gpu = make_backend("cuda", options(), test_comm());
    const ProgramShape program{graph_, 2, true, flow_};
    gpu->select(program);
    TunedDevices gone = parse_tuned_devices(gpu->tuning());
    for (auto& [key, plan] : gone.begin()->second)
        if (plan.engine != "kernel" && !plan.engine.empty()) plan.engine = "gone";
    gpu = make_backend("cuda", options(), test_comm());
    gpu->restore_tuning(text_of(gone));
    testing::internal::CaptureStderr();
    const auto algorithms = gpu->select(program);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("are chosen again"), std::string::npos);
    EXPECT_FALSE(dynamic_cast<const GpuAlgorithms&>(*algorithms).plans().empty());
    for (const PlanSpec& s : dynamic_cast<const GpuAlgorithms&>(*algorithms).plans())
        EXPECT_NE(parse_tuned_devices(gpu->tuning()).begin()->second.at(s.key()).engine, "gone");
}

}  // namespace
}  // namespace convoy::test
