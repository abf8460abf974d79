// Values that a checkpoint restores besides weights: the best accuracy, the rate's factor, running
// statistics. The test puts values into a checkpoint that no run would have, writes it to a file
// and reads it back.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

class KeepingListener final : public QuietListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>& r) override {
        records.insert(records.end(), r.begin(), r.end());
    }
    void on_eval(int64_t, int64_t, const EvalResult&, bool best) override { bests.push_back(best); }
    void on_checkpoint(Checkpoint&& c) override { checkpoints.push_back(std::move(c)); }

    std::vector<StepRecord> records;
    std::vector<bool> bests;  ///< one per evaluation: true if it was the best so far
    std::vector<Checkpoint> checkpoints;
};

ModelFile about() {
    const std::vector<float> half(Samples::channels, 0.5f);
    return {{"linear", 1, 1, Samples::channels, Samples::classes},
            {half, half},
            std::vector<std::string>(Samples::classes, "class")};
}

/// Trainings with 3 steps per epoch, of 10 samples each.
class Restore : public testing::Test {
protected:
    /// Returns the checkpoint at the end of `epochs` epochs.
    Checkpoint trained(double epochs) {
        Training training(backend_, graph_, samples_, &tests_, plain_setup(10, epochs));
        KeepingListener seen;
        training.trainer.run(seen);
        return std::move(seen.checkpoints.back());
    }
    /// Writes a checkpoint to a file and returns what it reads back.
    Checkpoint through_a_file(Checkpoint c, const State& state) {
        c.model = about();
        c.identity = {{"seed", "1"}};
        write_checkpoint(dir_.path("checkpoint.h5"), c, state);
        return read_checkpoint(dir_.path("checkpoint.h5"), state, c.identity);
    }

    TempDir dir_;
    cpu::CpuBackend backend_{{1, false}, test_comm()};
    const Graph graph_ = linear_graph();
    const Samples samples_ = draw_samples(30, 31), tests_ = draw_samples(20, 32);
};

TEST_F(Restore, TheBestAccuracyStaysTheBest) {
    Checkpoint c = trained(2);
    c.best_accuracy = 0.995;  // random labels allow much less
    c.best_step = 4;
    Training training(backend_, graph_, samples_, &tests_, plain_setup(10, 4));
    training.trainer.restore(through_a_file(std::move(c), training.trainer.programs().state()));
    EXPECT_EQ(training.trainer.progress().best_accuracy, 0.995);
    EXPECT_EQ(training.trainer.progress().best_step, 4);
    KeepingListener seen;
    training.trainer.run(seen);

    EXPECT_EQ(seen.bests, (std::vector<bool>{false, false})) << "no evaluation reached 99.5 %";
    EXPECT_EQ(training.trainer.progress().best_accuracy, 0.995);
    ASSERT_EQ(seen.checkpoints.size(), 1u) << "only at the end, for nothing was better";
    EXPECT_EQ(seen.checkpoints[0].step, 12);
    EXPECT_EQ(seen.checkpoints[0].best_accuracy, 0.995);
    EXPECT_EQ(seen.checkpoints[0].best_step, 4);
}

// A run that stopped before an evaluation already has a checkpoint of this step, without the
// evaluation.
TEST_F(Restore, ADueEvaluationIsFollowedByACheckpointOfTheSameStep) {
    Checkpoint c = trained(2);
    c.evaluation_due = true;
    Training training(backend_, graph_, samples_, &tests_, plain_setup(10, 2));
    training.trainer.restore(through_a_file(std::move(c), training.trainer.programs().state()));
    KeepingListener seen;
    training.trainer.run(seen);
    EXPECT_TRUE(seen.records.empty());
    EXPECT_EQ(seen.bests.size(), 1u);
    ASSERT_EQ(seen.checkpoints.size(), 1u);
    EXPECT_EQ(seen.checkpoints[0].step, 6);
    EXPECT_FALSE(seen.checkpoints[0].evaluation_due);
}

TEST_F(Restore, TheLastAccuracyIsKeptUntilTheNext) {
    Checkpoint c = trained(2);
    c.last_accuracy = 0.4375;
    Training training(backend_, graph_, samples_, &tests_, plain_setup(10, 4));
    training.trainer.restore(through_a_file(std::move(c), training.trainer.programs().state()));
    EXPECT_EQ(training.trainer.progress().last_accuracy, 0.4375);
}

TEST_F(Restore, TheRateStaysLoweredAfterARollback) {
    Checkpoint c = trained(2);
    c.rate_factor = 0.25;
    TrainSetup setup = plain_setup(10, 4);
    setup.schedule.base = 0.6;
    setup.schedule.kind = Schedule::multistep;  // falls to a tenth after epoch 3
    setup.schedule.milestones = {3};
    Training training(backend_, graph_, samples_, &tests_, setup);
    training.trainer.restore(through_a_file(std::move(c), training.trainer.programs().state()));
    KeepingListener seen;
    training.trainer.run(seen);

    ASSERT_EQ(seen.records.size(), 6u);
    for (const StepRecord& r : seen.records)
        EXPECT_FLOAT_EQ(float(r.learning_rate), r.step <= 9 ? 0.15f : 0.015f) << r.step;
    EXPECT_EQ(seen.checkpoints.back().rate_factor, 0.25);
}

/// Returns a graph with running statistics: bn.mean and bn.var of 10 channels.
Graph graph_with_norm() {
    GraphBuilder g("normed", 1, 1, Samples::channels, Samples::classes);
    const ValueId x = g.batch_norm("bn", g.linear("fc1", g.input(), Samples::channels));
    return g.finish(g.linear("fc2", x, Samples::classes), 0);
}

/// Restores running statistics that `ranks` ranks had: rank r's are r + 1 everywhere. Returns this
/// rank's, which are all equal.
float restored_statistic(cpu::CpuBackend& backend, const Samples& samples, int ranks) {
    Training training(backend, graph_with_norm(), samples, nullptr, plain_setup(10, 4));
    const State& state = training.trainer.programs().state();
    Checkpoint c;
    c.weights.assign(state.weights().count(), 0.0f);
    c.optimizer.assign(state.optimizer_block().count(), 0.0f);
    c.ranks = ranks;
    for (int r = 0; r < ranks; ++r) c.running.insert(c.running.end(), state.running().count(), float(r + 1));
    training.trainer.restore(std::move(c));
    for (const char* name : {"bn.mean", "bn.var"}) {
        const std::vector<float> values = training.tensor(name);
        EXPECT_EQ(values, std::vector<float>(size_t(Samples::channels), values[0])) << name;
    }
    EXPECT_EQ(training.tensor("bn.mean"), training.tensor("bn.var"));
    return training.tensor("bn.mean")[0];
}

// On as many ranks as wrote the checkpoint, each gets its own statistics. On any other number all
// get the mean.
TEST_F(Restore, RunningStatisticsOfOtherRanksAreAveraged) {
    const int ranks = test_comm().size();
    for (const int before : {1, 2, 3, 5}) {
        const float mean_of_1_to_n = float(before + 1) / 2;
        EXPECT_EQ(restored_statistic(backend_, samples_, before),
                  before == ranks ? float(test_comm().rank() + 1) : mean_of_1_to_n)
            << "from " << before << " ranks on " << ranks;
    }
    if (ranks > 1) return;
    EXPECT_EQ("", problem_on_ranks(2));
}

}  // namespace
}  // namespace convoy::test
