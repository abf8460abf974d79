// Effects of the optimizer's options on the weights. `convoy train` is compared, from its initial
// weights, with the same steps computed here in double. The model is softmax regression, whose
// gradient is a formula. A batch is the whole data set, so that its order does not matter. Rates of
// single kinds of parameters are tested on airbench94 with all gradients zero, so that only decay
// acts.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cli/train_setup.h"
#include "tests/support/cluster.h"
#include "tests/support/softmax_regression.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

/// Parameters of one step's formulas.
struct Rule {
    double rate = 0.05, momentum = 0, weight_decay = 0, bias_decay = 0, smoothing = 0;
    double weight_rate = 1;  ///< factor of the rate, for the weights only
    double loss_scale = 1;   ///< gradients are those of the mean loss times this factor
    bool nesterov = false;
    std::function<double(int)> factor = [](int) { return 1.0; };  ///< factor of the rate, by step, counted from 0
};

constexpr int images = 40, features = 28 * 28;
/// Weights are up to 1/28, and change by 0.01 to 0.1; rounding was seen to change them by at most
/// 2e-8.
constexpr double tolerance = 1e-7;

double distance(const Parameters& a, const Parameters& b) {
    double most = a.size() == b.size() ? 0 : INFINITY;
    for (size_t i = 0; i < a.size() && std::isfinite(most); ++i)
        most = std::isfinite(a[i]) ? std::max(most, std::abs(a[i] - b[i])) : INFINITY;
    return most;
}

class SetupStep : public testing::Test {
protected:
    SetupStep() {
        make_data(dir_.path("data"), images, 10, "28x28x1");
        train("start", "--lr 0 --epochs 1 --momentum 0");
        start_ = parameters_of(dir_.path("start/model.h5"));
        samples_ = samples_of(dir_.path("data"), "train", 0.4, 0.3);
    }
    void train(const std::string& run, const std::string& options) {
        const Finished f = convoy_alone(
            "train --model mnist-linear --mean 0.4 --stddev 0.3 --eval-every 0 --checkpoint-every none --data " +
            dir_.path("data") + " --batch-size " + std::to_string(images) + " --output " + dir_.path(run) + " " +
            options);
        ASSERT_EQ("", failure(f)) << options;
    }
    Parameters gradient(const Parameters& w, const Rule& r) const {
        Parameters g = gradient_of(w, samples_, r.smoothing);
        for (double& v : g) v *= r.loss_scale;
        return g;
    }
    /// SGD as PyTorch documents it: decay is added to the gradient, and then momentum.
    Parameters sgd(const Rule& r, int steps) const {
        Parameters w = start_, velocity(w.size());
        for (int s = 0; s < steps; ++s) {
            const Parameters g = gradient(w, r);
            for (size_t i = 0; i < w.size(); ++i) {
                const bool is_weight = i < size_t(regression_classes * features);
                const double d = g[i] + (is_weight ? r.weight_decay : r.bias_decay) * w[i];
                velocity[i] = r.momentum * velocity[i] + d;
                const double direction = r.nesterov ? d + r.momentum * velocity[i] : velocity[i];
                w[i] -= r.rate * r.factor(s) * (is_weight ? r.weight_rate : 1) * direction;
            }
        }
        return w;
    }
    /// Trains `steps` steps with `options` and expects `truth`. `otherwise` is the result if the
    /// option under test does nothing.
    void expect(const std::string& options, int steps, const Parameters& truth, const Parameters& otherwise) {
        const std::string run = "run" + std::to_string(++runs_);
        train(run, options + " --epochs " + std::to_string(steps));
        EXPECT_GT(distance(truth, otherwise), 30 * tolerance) << options << ": would not be seen";
        EXPECT_LT(distance(parameters_of(dir_.path(run + "/model.h5")), truth), tolerance) << options;
    }
    void expect_sgd(const std::string& options, int steps, const Rule& rule, const Rule& otherwise) {
        expect(options, steps, sgd(rule, steps), sgd(otherwise, steps));
    }

    TempDir dir_;
    Parameters start_;
    RegressionSamples samples_;
    int runs_ = 0;
};

TEST_F(SetupStep, RateMomentumAndNesterovFollowTheirFormulas) {
    expect_sgd("--lr 0.05 --momentum 0", 2, {}, {.rate = 0.1});
    expect_sgd("--lr 0.05", 3, {.momentum = 0.9}, {});
    expect_sgd("--lr 0.05 --momentum 0.6", 3, {.momentum = 0.6}, {.momentum = 0.9});
    expect_sgd("--lr 0.05 --momentum 0.6 --nesterov", 3, {.momentum = 0.6, .nesterov = true}, {.momentum = 0.6});
    expect_sgd("--lr 0.05 --momentum 0 --linear-lr 3", 2, {.weight_rate = 3}, {});
    expect_sgd("--lr 1@1000 --momentum 0", 2, {.rate = 0.04}, {});
}

TEST_F(SetupStep, WeightDecayFollowsItsFormula) {
    const std::string plain = "--lr 0.05 --momentum 0 --weight-decay 0.3 ";
    expect_sgd(plain, 3, {.weight_decay = 0.3, .bias_decay = 0.3}, {});
    expect_sgd(plain + "--decay weights", 3, {.weight_decay = 0.3}, {.weight_decay = 0.3, .bias_decay = 0.3});
    // A step at the base rate with decoupled decay subtracts 0.3 itself, whatever a parameter's own
    // rate is.
    expect_sgd(plain + "--decay-mode decoupled", 3, {.weight_decay = 6, .bias_decay = 6},
               {.weight_decay = 0.3, .bias_decay = 0.3});
    expect_sgd(plain + "--decay-mode decoupled --linear-lr 4", 3,
               {.weight_decay = 1.5, .bias_decay = 6, .weight_rate = 4},
               {.weight_decay = 6, .bias_decay = 6, .weight_rate = 4});
}

TEST_F(SetupStep, LabelSmoothingAndSummedLossFollowTheirFormulas) {
    expect_sgd("--lr 0.05 --momentum 0 --label-smoothing 0.4", 2, {.smoothing = 0.4}, {});
    expect_sgd("--lr 0.00125 --momentum 0 --loss sum", 2, {.rate = 0.00125, .loss_scale = images}, {.rate = 0.00125});
}

TEST_F(SetupStep, RatesPerKilostepFollowTheirFormulas) {
    // 1,024 samples, times the growth of steps under Nesterov's momentum: 1024 * (1 + 1 / (1 -
    // 0.6)).
    const double unit = 1024 * 3.5;
    Rule rule{.rate = 4 / unit, .momentum = 0.6, .weight_decay = 50 * images / unit, .bias_decay = 50 * images / unit};
    rule.loss_scale = images;
    rule.nesterov = true;
    Rule undecayed = rule;
    undecayed.weight_decay = undecayed.bias_decay = 0;
    expect_sgd("--lr 4 --lr-unit kilostep --momentum 0.6 --nesterov --weight-decay 50 --loss sum", 2, rule, undecayed);
}

TEST_F(SetupStep, WarmUpAndSchedulesFollowTheirFormulas) {
    const auto with = [](std::function<double(int)> factor) {
        Rule rule;
        rule.factor = std::move(factor);
        return rule;
    };
    const std::string plain = "--lr 0.05 --momentum 0 ";  // an epoch is one step
    expect_sgd(plain + "--warmup-epochs 4", 3, with([](int s) { return (s + 1) / 4.0; }), {});
    expect_sgd(plain + "--lr-schedule cosine", 3, with([](int s) { return 0.5 * (1 + std::cos(M_PI * s / 3)); }), {});
    expect_sgd(plain + "--lr-schedule step --lr-step-epochs 2 --lr-gamma 0.3", 3,
               with([](int s) { return s < 2 ? 1 : 0.3; }), {});
    expect_sgd(plain + "--lr-schedule multistep --lr-milestones 1,2 --lr-gamma 0.5", 3,
               with([](int s) { return std::pow(0.5, s); }), {});
    expect_sgd(plain + "--lr-schedule linear --lr-points 0:1,4:3", 3, with([](int s) { return 1 + s / 2.0; }), {});
    expect_sgd(plain + "--lr-schedule linear --lr-points 50%:1,100%:0", 4,
               with([](int s) { return s < 2 ? 1 : 2 - s / 2.0; }), {});
}

TEST_F(SetupStep, AdamFollowsItsFormula) {
    const auto adam = [&](double beta1, double beta2, double epsilon, double decay) {
        Parameters w = start_, m(w.size()), v(w.size());
        for (int t = 1; t <= 3; ++t) {
            const Parameters g = gradient(w, {});
            for (size_t i = 0; i < w.size(); ++i) {
                const double d = g[i] + decay * w[i];
                m[i] = beta1 * m[i] + (1 - beta1) * d;
                v[i] = beta2 * v[i] + (1 - beta2) * d * d;
                w[i] -=
                    0.01 * (m[i] / (1 - std::pow(beta1, t))) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + epsilon);
            }
        }
        return w;
    };
    // Epsilon is as large as gradients are: with a small one, rounding decides the sign of a step
    // where the gradient is almost zero.
    const std::string plain = "--optimizer adam --lr 0.01 --epsilon 0.05 ";
    const Parameters usual = adam(0.9, 0.999, 0.05, 0);
    expect(plain, 3, usual, adam(0.9, 0.999, 1e-8, 0));
    expect(plain + "--beta1 0.5", 3, adam(0.5, 0.999, 0.05, 0), usual);
    expect(plain + "--beta2 0.7", 3, adam(0.9, 0.7, 0.05, 0), usual);
    expect(plain + "--weight-decay 0.5", 3, adam(0.9, 0.999, 0.05, 0.5), usual);
}

TEST_F(SetupStep, LookAheadFollowsItsFormula) {
    // Three steps, averages after the second and at the end: slow += (1 - d) (w - slow), w = slow.
    // The last average becomes the weights.
    const auto averaged = [&](double decay) {
        Parameters w = start_, slow = start_;
        const auto step = [&] {
            const Parameters g = gradient(w, {});
            for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.05 * g[i];
        };
        step();
        step();
        const double keeps = decay * decay * std::pow(2.0 / 3, 3);
        for (size_t i = 0; i < w.size(); ++i) w[i] = slow[i] += (1 - keeps) * (w[i] - slow[i]);
        return w;  // the third step is undone: at the end the weights become the average, which ignores them
    };
    const std::string plain = "--lr 0.05 --momentum 0 --look-ahead 2 ";
    expect(plain, 3, averaged(0.95), sgd({}, 3));
    expect(plain + "--look-ahead-decay 0.5", 3, averaged(0.5), averaged(0.95));
}

/// A listener that reports nothing.
class Silent final : public TrainListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>&) override {}
    void on_epoch(const EpochSummary&) override {}
    void on_eval(int64_t, int64_t, const EvalResult&, bool) override {}
    void on_checkpoint(Checkpoint&&) override {}
    std::optional<Checkpoint> on_rollback(int64_t) override { return std::nullopt; }
};

/// Remaining share of weights by group after three epochs of one step each; biases start as 0.5.
using Left = std::map<ParamGroup, double>;

/// No parameter has a gradient, because softmax equals its targets: they are spread over all
/// classes, and the last layer is zero.
void expect_left(const std::string& options, const Left& left) {
    const TempDir dir;
    make_data(dir.path("data"), 8, 4, "32x32x3", 1);
    std::vector<std::string> args = {"--data", dir.path("data"), "--model", "airbench94",        "--batch-size",
                                     "8",      "--epochs",       "3",       "--label-smoothing", "1"};
    std::istringstream in(options);
    for (std::string word; in >> word;) args.push_back(word);
    const TrainOptions o = parse_train_options(args).options;
    const std::unique_ptr<Backend> backend = make_cpu_backend(o.backend, test_comm());
    const SplitReader reader(dir.path("data"), "train");
    const DataSet data(test_comm(), *backend, reader);
    const Graph graph = fuse(build_model(model_of(o, reader.info())));
    Requests nobody;
    Trainer trainer(test_comm(), *backend, graph, data, nullptr, setup_of(o, reader.info(), 1, std::nullopt), nobody);
    trainer.programs().prepare();
    trainer.programs().build();
    trainer.programs().initialise();
    std::vector<std::vector<float>> start;
    for (size_t id = 0; id < graph.params.size(); ++id) {
        const Tensor& t = trainer.programs().state().params()[id];
        std::vector<float> values(t.as<float>(), t.as<float>() + t.count());
        if (graph.params[id].group == ParamGroup::linear) values.assign(values.size(), 0);
        if (graph.params[id].name.ends_with(".bias")) values.assign(values.size(), 0.5f);
        backend->upload(t.data, values.data(), t.bytes());
        start.push_back(values);
    }
    Silent listener;
    trainer.run(listener);
    for (size_t id = 0; id < graph.params.size(); ++id) {
        const Param& p = graph.params[id];
        if (!p.trained || p.frozen || p.group == ParamGroup::linear) continue;
        const auto* end = trainer.programs().state().params()[id].as<float>();
        for (size_t i = 0; i < start[id].size(); ++i)
            ASSERT_NEAR(end[i], double(start[id][i]) * left.at(p.group), 1e-6) << options << ": " << p.name << " " << i;
    }
}

TEST(SetupStepRates, DifferByKindOfParameter) {
    const auto thrice = [](double decay) { return std::pow(1 - decay, 3); };
    const auto twice = [](double decay) { return std::pow(1 - decay, 2); };
    const std::string plain = "--lr 0.5 --momentum 0 --weight-decay 0.1 ";
    using enum ParamGroup;
    expect_left(plain, {{filter, thrice(0.05)}, {norm_shift, thrice(0.05)}, {whitening_bias, thrice(0.05)}});
    expect_left(plain + "--norm-shift-lr 3",
                {{filter, thrice(0.05)}, {norm_shift, thrice(0.15)}, {whitening_bias, thrice(0.05)}});
    expect_left(plain + "--filter-lr 4",
                {{filter, thrice(0.2)}, {norm_shift, thrice(0.05)}, {whitening_bias, thrice(0.05)}});
    expect_left(plain + "--whitening-bias-epochs 2",
                {{filter, thrice(0.05)}, {norm_shift, thrice(0.05)}, {whitening_bias, twice(0.05)}});
    expect_left(plain + "--decay weights", {{filter, thrice(0.05)}, {norm_shift, 1}, {whitening_bias, 1}});
    expect_left(plain + "--decay-mode decoupled --norm-shift-lr 3 --filter-lr 4",
                {{filter, thrice(0.1)}, {norm_shift, thrice(0.1)}, {whitening_bias, thrice(0.1)}});
}

}  // namespace
}  // namespace convoy::test
