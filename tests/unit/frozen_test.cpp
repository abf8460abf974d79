// Parameters that stop being trained: what later steps leave out, and that everything else keeps
// the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_queries.h"
#include "tests/cuda/graphs.h"
#include "tests/support/cluster.h"
#include "tests/support/model_runner.h"
#include "tests/support/test_comm.h"
#include "train/trainer.h"

namespace convoy::test {
namespace {

Graph without_whitening_bias(Graph graph) {
    for (Param& p : graph.params) p.frozen = p.frozen || p.group == ParamGroup::whitening_bias;
    return graph;
}

TEST(Frozen, NothingBeforeTheFirstTrainedConvolutionNeedsAGradient) {
    const Graph graph = cuda_graph("airbench94", 32, 3, 10, Precision::f32);
    for (const bool frozen : {false, true}) {
        const GradientFlow flow = gradient_flow(frozen ? without_whitening_bias(graph) : graph);
        std::vector<std::string> unwanted;
        for (size_t v = 0; v < graph.values.size(); ++v)
            if (!flow.wanted[v] && writers_of(graph)[v] != none) unwanted.push_back(graph.values[v].name);
        EXPECT_EQ(unwanted,
                  frozen ? std::vector<std::string>({"whitening", "whitening.gelu"}) : std::vector<std::string>{});
    }
}

/// Two programs of one state: a training's before and after it freezes its whitening bias.
class TwoPrograms {
public:
    explicit TwoPrograms(Backend& backend, Precision precision)
        : backend_(backend),
          graphs_{with_precision(cuda_graph("airbench94", 32, 3, 10, Precision::f32), precision,
                                 backend.facts().channel_multiple)},
          state_(graphs_.front(), backend, &spec_) {
        graphs_.push_back(without_whitening_bias(graphs_.front()));
        for (const Graph& g : graphs_) plans_.push_back(prepare_program(g, backend, {batch, batch, 0, true}));
        arena_ = backend.allocate(std::max(plans_[0].memory.bytes, plans_[1].memory.bytes));
        counters_ = upload(backend, std::vector<Counters>(1));
        state_.initialise(graphs_.front(), backend, 3);
        for (size_t id = 0; id < graph().params.size(); ++id)
            if (graph().params[id].is_weight) {
                Floats v = stream(graph().params[id].name, graph().params[id].shape.count());
                for (float& e : v) e *= 0.2f;
                put(backend, state_.params()[id], v);
            }
    }
    /// Returns gradients of one batch by ParamId; empty: not trained. Memory holds NaN before.
    std::vector<Floats> gradients(size_t program) {
        Program p =
            lower({graphs_[program], backend_, state_, arena_, 1, false, static_cast<Counters*>(counters_.get())},
                  plans_[program], cut_buckets(state_.counts(), 4096), nullptr);
        for (const Tensor& g : state_.gradients())
            if (g.data) put(backend_, g, Floats(g.count(), std::numeric_limits<float>::quiet_NaN()));
        put(backend_, p.input, stream("images", p.input.shape.pixels() * size_t(p.input.channels())));
        backend_.upload(p.labels.data, std::vector<int32_t>{1, 4, 9}.data(), p.labels.bytes());
        for (size_t i = 0; i < p.tape.size(); ++i) names_[program].push_back(p.tape[i].id.name);
        run_tape(backend_, p.tape);
        std::vector<Floats> all;
        for (const Tensor& g : state_.gradients()) all.push_back(g.data ? get(backend_, g) : Floats());
        return all;
    }
    /// Returns launches of the first program that the second does not have.
    std::vector<std::string> left_out() const {
        std::vector<std::string> names = names_[0];
        for (const std::string& name : names_[1])
            if (const auto same = std::find(names.begin(), names.end(), name); same != names.end()) names.erase(same);
        return names;
    }
    const Graph& graph() const { return graphs_.front(); }

private:
    static constexpr int batch = 3;
    Backend& backend_;
    const OptimizerSpec spec_{};
    std::vector<Graph> graphs_;
    State state_;
    std::vector<PreparedProgram> plans_;
    Buffer arena_, counters_;
    std::vector<std::string> names_[2];
};

void expect_the_rest_is_the_same(Backend& backend, Precision precision) {
    TwoPrograms programs(backend, precision);
    const std::vector<Floats> before = programs.gradients(0), after = programs.gradients(1);
    for (size_t id = 0; id < before.size(); ++id) {
        const Param& p = programs.graph().params[id];
        if (p.group == ParamGroup::whitening_bias) {
            EXPECT_NE(before[id], Floats(24, 0));
            EXPECT_EQ(after[id], Floats(24, 0)) << "what the first program wrote there must not be summed";
        } else {
            EXPECT_EQ(before[id], after[id]) << p.name;
            for (const float g : after[id]) ASSERT_TRUE(std::isfinite(g)) << p.name;
        }
    }
    EXPECT_EQ(programs.left_out(),
              (std::vector<std::string>{"conv data gradient group1.conv1", "gelu gradient whitening",
                                        "conv bias gradient whitening"}));
}

TEST(Frozen, LeavesTheOtherGradientsTheSameBits) {
    expect_the_rest_is_the_same(*make_test_backend("cpu"), Precision::f32);
    if (has_bf16()) expect_the_rest_is_the_same(*make_test_backend("cpu"), Precision::bf16);
}

TEST(Frozen, LeavesTheOtherGradientsTheSameBitsOnAGpu) {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    for (const Precision p : {Precision::f32, Precision::bf16, Precision::f16}) {
        BackendOptions options;
        options.precision = p;
        options.tune_seconds = 0;
        expect_the_rest_is_the_same(*make_backend("cuda", options, test_comm()), p);
    }
}

/// A backend that freezes the whitening bias from a step on, whatever the trainer requests.
class FreezingBackend final : public cpu::CpuBackend {
public:
    FreezingBackend() : cpu::CpuBackend({.threads = 1}, test_comm()) {}
    void update(const Update& u, Tape& tape) override {
        Update frozen = u;
        if (frozen_from > 0) {  // the bias is last: 24 floats in 32
            UpdateSegment bias = frozen.segments.back();
            frozen.segments.back().end = bias.begin = bias.end - 32;
            bias.steps = frozen_from;
            frozen.segments.push_back(bias);
            std::erase_if(frozen.segments, [](const UpdateSegment& s) { return s.begin == s.end; });
        }
        cpu::CpuBackend::update(frozen, tape);
    }
    int64_t frozen_from = 0;  ///< 0: never
};

class KeptCheckpoints final : public TrainListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>& records) override {
        for (const StepRecord& r : records) losses.push_back(r.loss);
    }
    void on_epoch(const EpochSummary&) override {}
    void on_eval(int64_t, int64_t, const EvalResult&, bool) override {}
    void on_checkpoint(Checkpoint&& c) override { checkpoints.push_back(std::move(c)); }
    std::optional<Checkpoint> on_rollback(int64_t) override { return std::nullopt; }
    std::vector<double> losses;
    std::vector<Checkpoint> checkpoints;
};

/// 3 epochs of 3 steps, and the last step of each epoch is smaller; look-ahead after every second
/// step.
class FrozenTrainer : public testing::Test {
protected:
    FrozenTrainer() { make_data(dir_.path("data"), 14, 4, "32x32x3", 1); }
    KeptCheckpoints train(double epochs, int64_t frozen_by_backend, bool muon = false) {
        FreezingBackend backend;
        backend.frozen_from = frozen_by_backend;
        const SplitReader reader(dir_.path("data"), "train");
        const DataSet data(test_comm(), backend, reader);
        TrainSetup setup;
        setup.schedule.base = 0.01;
        setup.global_batch = 6;
        setup.epochs = 3;
        setup.look_ahead = 2;
        setup.muon = muon;
        setup.log_interval = setup.checkpoint_steps = 1;
        setup.whitening_bias_epochs = epochs;
        setup.preprocessing = {reader.info().mean, reader.info().stddev};
        const Graph graph = cuda_graph("airbench94", 32, 3, 10, Precision::f32);
        Requests requests;
        Trainer trainer(test_comm(), backend, graph, data, nullptr, setup, requests);
        trainer.programs().prepare();
        trainer.programs().build();
        trainer.programs().initialise();
        KeptCheckpoints kept;
        trainer.run(kept);
        return kept;
    }
    TempDir dir_;
};

// In one run the backend freezes, in the other the trainer's second program does, in the middle of
// an epoch. Losses, weights, momenta and averages after every step have the same bits.
TEST_F(FrozenTrainer, GoesOnWithTheSameBits) {
    for (const bool muon : {false, true}) {
        const KeptCheckpoints by_backend = train(0, 5, muon), own = train(5.0 / 3, 0, muon),
                              trained = train(0, 0, muon);
        EXPECT_EQ(own.losses.size(), 9u);
        EXPECT_EQ(own.losses, by_backend.losses);
        EXPECT_NE(own.losses, trained.losses) << "the bias must matter for this test to mean anything";
        ASSERT_EQ(own.checkpoints.size(), by_backend.checkpoints.size());
        for (size_t i = 0; i < own.checkpoints.size(); ++i) {
            EXPECT_EQ(own.checkpoints[i].weights, by_backend.checkpoints[i].weights) << i;
            EXPECT_EQ(own.checkpoints[i].optimizer, by_backend.checkpoints[i].optimizer) << i;
            EXPECT_EQ(own.checkpoints[i].running, by_backend.checkpoints[i].running) << i;
        }
    }
    if (test_comm().size() == 1) {
        EXPECT_EQ("", problem_on_ranks(2));
    }
}

}  // namespace
}  // namespace convoy::test
