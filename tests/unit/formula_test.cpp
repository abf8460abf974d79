// Trainings compared with formulas in double precision: softmax regression with momentum, step by
// step, and an evaluation with the mean of the ranks' running statistics. Comparing Convoy with
// itself would miss an error that is in both runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

constexpr int classes = Samples::classes, channels = Samples::channels;
using Reals = std::vector<double>;

Reals reals(const std::vector<float>& v) { return {v.begin(), v.end()}; }

/// |a - b| / |b|.
double relative(const std::vector<float>& a, const Reals& b) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < b.size(); ++i) {
        apart += std::pow(double(a.at(i)) - b[i], 2);
        size += b[i] * b[i];
    }
    return std::sqrt(apart / size);
}

/// logits [classes] = weight [classes, inputs] x + bias [classes].
Reals affine(const Reals& weight, const Reals& bias, const Reals& x) {
    Reals y = bias;
    for (size_t k = 0; k < bias.size(); ++k)
        y[k] += std::inner_product(x.begin(), x.end(), weight.begin() + ptrdiff_t(k * x.size()), 0.0);
    return y;
}

/// exp(logit) / sum of exp(logits).
Reals softmax(const Reals& logits) {
    Reals p;
    for (const double l : logits) p.push_back(std::exp(l));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& v : p) v /= sum;
    return p;
}

Reals inputs_of(const Samples& samples, int sample) {
    Reals x;
    for (int c = 0; c < channels; ++c) x.push_back(samples.input(sample, c));
    return x;
}

/// Softmax regression under SGD with momentum as PyTorch defines it:
/// v = momentum * v + gradient, w -= rate * v.
class Regression {
public:
    Regression(Reals weight, Reals bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

    /// Takes one step on these samples. Returns the mean of -log(probability of the label) before
    /// it.
    double step(const Samples& samples, const std::vector<int>& batch, double rate, double momentum) {
        Reals dweight(weight_.size()), dbias(bias_.size());
        double loss = 0;
        for (const int sample : batch) {
            const Reals x = inputs_of(samples, sample), p = softmax(affine(weight_, bias_, x));
            const int label = samples.labels[sample];
            loss -= std::log(p[label]) / double(batch.size());
            for (int k = 0; k < classes; ++k) {
                const double slope = (p[k] - (k == label)) / double(batch.size());
                dbias[k] += slope;
                for (int c = 0; c < channels; ++c) dweight[k * channels + c] += slope * x[c];
            }
        }
        descend(weight_, weight_velocity_, dweight, rate, momentum);
        descend(bias_, bias_velocity_, dbias, rate, momentum);
        return loss;
    }
    /// Returns sums over these samples: of -log(probability of the label), and of labels that are
    /// the most probable class, or among the five most probable.
    Tally tally(const Samples& samples, const std::vector<int>& batch) const {
        Tally sums;
        for (const int sample : batch) {
            const Reals p = softmax(affine(weight_, bias_, inputs_of(samples, sample)));
            const double own = p[samples.labels[sample]];
            const auto better = std::count_if(p.begin(), p.end(), [own](double other) { return other > own; });
            sums +=
                {.images = 1, .loss_sum = -std::log(own), .correct = double(better == 0), .top5 = double(better < 5)};
        }
        return sums;
    }
    const Reals& weight() const { return weight_; }
    const Reals& bias() const { return bias_; }

private:
    static void descend(Reals& w, Reals& velocity, const Reals& gradient, double rate, double momentum) {
        velocity.resize(w.size());
        for (size_t i = 0; i < w.size(); ++i) {
            velocity[i] = momentum * velocity[i] + gradient[i];
            w[i] -= rate * velocity[i];
        }
    }
    Reals weight_, bias_, weight_velocity_, bias_velocity_;
};

class StepListener final : public QuietListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>& r) override {
        records.insert(records.end(), r.begin(), r.end());
    }
    std::vector<StepRecord> records;
};

/// Returns a schedule of 2 steps per epoch: 0.4 after a warm-up of three steps, then a fall to a
/// quarter from epoch 1 to 3.
TrainSetup rising_and_falling() {
    TrainSetup setup = plain_setup(20, 4);
    setup.optimizer.momentum = 0.8f;
    setup.schedule.kind = Schedule::linear;
    setup.schedule.base = 0.4;
    setup.schedule.warmup_epochs = 1.5;
    setup.schedule.points = {{1, 1.0}, {3, 0.25}};
    return setup;
}
/// Rates of steps 1 to 8: a third, two thirds, all; then at epoch e = (step - 1) / 2 the factor 1 -
/// 0.75 * (e - 1) / 2, down to 0.25.
const Reals rates = {0.4 / 3, 0.4 * 2 / 3, 0.4, 0.4 * 0.8125, 0.4 * 0.625, 0.4 * 0.4375, 0.4 * 0.25, 0.4 * 0.25};

/// The tolerance is a float's error of a sum of 20 terms, through at most 8 steps.
void expect_tally(const Tally& got, const Tally& formula) {
    EXPECT_EQ(got.images, formula.images);
    EXPECT_NEAR(got.loss_sum, formula.loss_sum, 1e-5 * double(formula.images));
    EXPECT_NEAR(got.correct, formula.correct, 1e-9);
    EXPECT_NEAR(got.top5, formula.top5, 1e-9);
}

/// Returns this rank's samples of a batch.
std::vector<int> own_of(const std::vector<int>& batch) {
    const Share mine = share_of(int64_t(batch.size()), test_comm().size(), test_comm().rank());
    return {batch.begin() + mine.first, batch.begin() + mine.first + mine.count};
}

/// Trains two steps per epoch, one of 20 samples and one of the 10 that are left.
void expect_formula(const TrainSetup& setup, const Reals& rate_of_step) {
    constexpr int images = 30, full = 20;
    cpu::CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(images, 11);
    Training training(backend, linear_graph(), samples, nullptr, setup);
    Regression formula(reals(training.tensor("fc.weight")), reals(training.tensor("fc.bias")));
    StepListener seen;
    training.trainer.run(seen);

    ASSERT_EQ(seen.records.size(), rate_of_step.size());
    for (size_t s = 0; s < rate_of_step.size(); ++s) {
        const std::vector<int32_t> order = permutation(images, setup.seed, uint32_t(s / 2));
        const auto middle = order.begin() + full;
        const std::vector<int> batch =
            s % 2 == 0 ? std::vector<int>(order.begin(), middle) : std::vector<int>(middle, order.end());
        SCOPED_TRACE("step " + std::to_string(s + 1));
        EXPECT_NEAR(seen.records[s].learning_rate, rate_of_step[s], 1e-7);
        expect_tally(tally_of_all(seen.records[s]), formula.tally(samples, batch));
        expect_tally(tally_of_own(seen.records[s]), formula.tally(samples, own_of(batch)));
        // Float's rounding of a sum of 20 terms, through at most 8 steps.
        EXPECT_NEAR(seen.records[s].loss,
                    formula.step(samples, batch, rate_of_step[s], double(setup.optimizer.momentum)), 1e-5);
    }
    EXPECT_LT(relative(training.tensor("fc.weight"), formula.weight()), 1e-5);
    EXPECT_LT(relative(training.tensor("fc.bias"), formula.bias()), 1e-5);
}

// Shares of 7, 7 and 6 samples on three ranks, and of 4, 3 and 3 in the smaller batch.
TEST(Formula, WeightsAfterFullAndSmallerBatches) {
    TrainSetup setup = plain_setup(20, 4);
    setup.schedule.base = 0.25;
    expect_formula(setup, Reals(8, 0.25));
    if (test_comm().size() > 1) return;
    EXPECT_EQ("", problem_on_ranks(3));
}

TEST(Formula, EachStepHasItsOwnRate) { expect_formula(rising_and_falling(), rates); }

// 3 steps per epoch, 9 in all, on two ranks. Compares options with the metric file.
TEST(Formula, MetricsHaveTheRateOfEachStep) {
    const TempDir dir;
    make_data(dir.path("data"), 50, 10, "28x28x1");
    const std::string options = "--model mnist-linear --batch-size 20 --epochs 3 --log-interval 4 ",
                      rule = "--lr 0.3 --lr-schedule cosine --warmup-epochs 1 ";
    const std::string folders = "--data " + dir.path("data") + " --output " + dir.path("run");
    ASSERT_EQ("", failure(launch(2, "train " + options + rule + folders)));
    const Reals steps = column(dir.path("run"), "train/step"), seen = column(dir.path("run"), "train/learning_rate");
    ASSERT_EQ(steps.size(), 9u);
    for (int s = 0; s < 9; ++s) {
        EXPECT_EQ(steps[s], s + 1);
        EXPECT_NEAR(seen[s], 0.3 * std::min(1.0, (s + 1) / 3.0) * 0.5 * (1 + std::cos(M_PI * s / 9)), 1e-7)
            << "step " << s + 1;
    }
}

/// x -> fc1 -> batch norm -> fc2. The batch norm's momentum is nine tenths, so that the ranks'
/// statistics differ much.
Graph graph_with_norm() {
    GraphBuilder g("normed", 1, 1, channels, classes);
    const ValueId x = g.batch_norm("bn", g.linear("fc1", g.input(), channels), 1e-5f, 0.9f);
    return g.finish(g.linear("fc2", x, classes), 0);
}

/// Outputs of the model on samples, given running statistics.
class NormFormula {
public:
    explicit NormFormula(const Training& t)
        : weight1_(reals(t.tensor("fc1.weight"))),
          bias1_(reals(t.tensor("fc1.bias"))),
          weight2_(reals(t.tensor("fc2.weight"))),
          bias2_(reals(t.tensor("fc2.bias"))) {}

    /// Returns the mean of -log(probability of the label).
    double loss(const Samples& samples, const Reals& mean, const Reals& variance) const {
        double sum = 0;
        for (int i = 0; i < samples.count(); ++i) {
            Reals x = affine(weight1_, bias1_, inputs_of(samples, i));
            for (size_t c = 0; c < x.size(); ++c) x[c] = (x[c] - mean[c]) / std::sqrt(variance[c] + 1e-5);
            sum -= std::log(softmax(affine(weight2_, bias2_, x))[samples.labels[i]]);
        }
        return sum / samples.count();
    }

private:
    Reals weight1_, bias1_, weight2_, bias2_;
};

/// Keeps the running statistics of this rank after the last step, before the evaluation, and the
/// evaluation's result.
class NormListener final : public QuietListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>&) override {
        mean = reals(training->tensor("bn.mean"));
        variance = reals(training->tensor("bn.var"));
    }
    void on_eval(int64_t, int64_t, const EvalResult& result, bool) override { losses.push_back(result.loss); }

    const Training* training = nullptr;
    Reals mean, variance, losses;
};

/// Returns the mean over ranks.
Reals mean_of_ranks(const Reals& mine) {
    const Reals all = test_comm().gather_all(mine);
    Reals mean(mine.size());
    for (size_t i = 0; i < all.size(); ++i) mean[i % mine.size()] += all[i] / double(test_comm().size());
    return mean;
}

// The rate is 0, so that only the running statistics move.
TEST(Formula, EvaluationTakesTheMeanOfTheRanksStatistics) {
    if (test_comm().size() == 1) {
        EXPECT_EQ("", problem_on_ranks(2));
        return;
    }
    TrainSetup setup = plain_setup(12, 1);
    setup.schedule.base = 0;
    cpu::CpuBackend backend({1, false}, test_comm());
    const Samples samples = draw_samples(24, 12), tests = draw_samples(15, 13);
    Training training(backend, graph_with_norm(), samples, &tests, setup);
    NormListener seen;
    seen.training = &training;
    training.trainer.run(seen);

    ASSERT_EQ(seen.losses.size(), 1u);
    const NormFormula formula(training);
    const Reals mean = mean_of_ranks(seen.mean), variance = mean_of_ranks(seen.variance);
    const double expected = formula.loss(tests, mean, variance),
                 of_this_rank = formula.loss(tests, seen.mean, seen.variance);
    EXPECT_NEAR(seen.losses[0], expected, 1e-5);
    EXPECT_GT(std::abs(of_this_rank - expected), 1e-3)
        << "the statistics of the ranks must differ for this test to see anything";
}

}  // namespace
}  // namespace convoy::test
