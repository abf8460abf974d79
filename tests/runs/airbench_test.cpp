// The airbench94 model and its recipe. Initial weights, rates and decays are compared with numbers
// calculated by hand, test-time augmentation with a sum over views in double. A run also resumes
// from a checkpoint between two averages.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/gelu.h"
#include "backend/gpu/dry_run_backend.h"
#include "cli/train_setup.h"
#include "model/models.h"
#include "tests/ops/op_cases.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"
#include "train/setup.h"

namespace convoy::test {
namespace {

Graph airbench94() { return build_model({"airbench94", 32, 32, 3, 10, "auto", 0.2f, true, true}); }

TEST(Airbench94, VectorisedGeluMatchesTheLibrarys) {
    const auto exact = [](double z) { return 0.5 * z * std::erfc(-z / std::sqrt(2.0)); };
    const auto slope = [](double z) {
        return 0.5 * std::erfc(-z / std::sqrt(2.0)) + z * std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI);
    };
    for (int i = -120'000; i <= 120'000; ++i) {
        const float z = float(i) * 1e-4f;
        ASSERT_NEAR(cpu::gelu(z), exact(double(z)), 3e-7 * (1 + std::abs(double(z)))) << z;
        ASSERT_NEAR(cpu::gelu_derivative(z), slope(double(z)), 1e-6) << z;
    }
    for (const float z : {20.0f, 1e4f, 1e30f}) {
        EXPECT_EQ(cpu::gelu(z), z);
        EXPECT_EQ(cpu::gelu(-z), 0);
        EXPECT_EQ(cpu::gelu_derivative(z), 1);
        EXPECT_EQ(cpu::gelu_derivative(-z), 0);
    }
    EXPECT_TRUE(std::isnan(cpu::gelu(NAN)));
    EXPECT_TRUE(std::isnan(cpu::gelu_derivative(NAN)));
}

TEST(Airbench94, StartsAsTheIdentityWithoutScales) {
    const Graph g = airbench94();
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const OptimizerSpec spec;
    State state(g, *cpu, &spec);
    state.initialise(g, *cpu, 1);
    size_t frozen = 0;
    for (size_t id = 0; id < g.params.size(); ++id) {
        const Param& p = g.params[id];
        const Floats v = download<float>(*cpu, state.params()[id].data, p.shape.count());
        EXPECT_EQ(state.gradients()[id].data == nullptr, p.frozen || !p.trained) << p.name;
        frozen += p.frozen ? v.size() : 0;
        if (p.name.ends_with(".scale")) {
            EXPECT_TRUE(p.frozen);
            EXPECT_EQ(v, Floats(v.size(), 1)) << p.name;
        } else if (p.name.ends_with(".bias")) {
            EXPECT_EQ(v, Floats(v.size(), 0)) << p.name;
        } else if (p.name.starts_with("group")) {
            if (!p.is_weight) continue;
            const size_t filter = size_t(9 * p.shape.c);
            double sum = 0;
            for (size_t i = 0; i < v.size(); ++i) {
                const size_t out = i / filter, tap = i % filter / size_t(p.shape.c), in = i % size_t(p.shape.c);
                if (out < size_t(p.shape.c)) {
                    ASSERT_EQ(v[i], out == in && tap == 4 ? 1 : 0) << p.name << " " << i;
                } else {
                    ASSERT_LE(std::abs(v[i]), 1 / std::sqrt(9 * double(p.shape.c)));
                    sum += double(v[i]) * double(v[i]);
                }
            }
            const double drawn = double(v.size()) - double(std::min(p.shape.n, p.shape.c)) * double(filter);
            if (drawn > 0) {
                // a uniform's variance is a third of its bound squared
                EXPECT_NEAR(sum / drawn * 27 * p.shape.c, 1, 0.02) << p.name;
            }
        }
    }
    EXPECT_EQ(frozen, 288u + 1152u);
}

class AirbenchRecipe : public testing::Test {
protected:
    const TrainOptions o_ = parse_train_options({"--config", "input/recipes/airbench94.cfg", "--data", "x"}).options;
    static constexpr int64_t steps = 476, epoch = 48;

    TrainSetup setup() const {
        SplitInfo cifar10;
        cifar10.images = 50'000;
        cifar10.height = cifar10.width = 32;
        cifar10.channels = 3;
        return setup_of(o_, cifar10, 1, std::nullopt);
    }
};

TEST_F(AirbenchRecipe, RatesRiseAndFall) {
    const Schedule s = schedule_of(o_, o_.batch_size, 50000);
    EXPECT_NEAR(s.base, 0.00146484375, 1e-12) << "11.5 / (1024 * (1 + 1 / 0.15)) = 11.5 / 7850.666...";
    const auto factor = [&](int64_t step) { return learning_rate(s, step, epoch, steps) / s.base; };
    // 109 whole steps are 23 % of 476.
    EXPECT_NEAR(factor(0), 0.2, 1e-12);
    EXPECT_NEAR(factor(54), 0.2 + 0.8 * 54 / 109, 1e-12);
    EXPECT_NEAR(factor(108), 0.2 + 0.8 * 108 / 109, 1e-12);
    EXPECT_NEAR(factor(109), 1, 1e-12);
    EXPECT_NEAR(factor(110), 1 - 0.93 / 367, 1e-12);
    EXPECT_NEAR(factor(475), 0.07 + 0.93 / 367, 1e-12);
}

TEST_F(AirbenchRecipe, EveryParameterHasItsRateAndDecay) {
    const ParamRules rules = param_rules(setup(), epoch);
    constexpr double lr = 11.5 / (1024 / 0.15 * 1.15), decay = 0.0153 * 1024 / (1024 / 0.15 * 1.15);
    int shifts = 0, others = 0;
    for (const Param& p : airbench94().params) {
        if (!p.trained || p.frozen) continue;
        const ParamRule rule = rules(p);
        const bool shift = p.name.starts_with("group") && p.name.ends_with(".bias");
        (shift ? shifts : others) += 1;
        EXPECT_EQ(rule.learning_rate, shift ? 64 : 1) << p.name;
        EXPECT_NEAR(rule.weight_decay, decay / (lr * (shift ? 64 : 1)), 1e-6) << p.name;
        EXPECT_EQ(rule.steps, p.name == "whitening.bias" ? 144 : INT64_MAX) << p.name;
    }
    EXPECT_EQ(shifts, 6);
    EXPECT_EQ(others, 8);
}

TEST_F(AirbenchRecipe, SaysTheRest) {
    const OptimizerSpec spec = o_.setup.optimizer;
    EXPECT_EQ(spec.kind, OptimizerSpec::sgd);
    EXPECT_EQ(spec.momentum, 0.85f);
    EXPECT_TRUE(spec.nesterov);
    SplitInfo cifar;
    cifar.height = cifar.width = 32;
    const Augment a = augment_of(o_, cifar);
    EXPECT_TRUE(a.pad == 2 && a.reflect && a.flip && a.alternate);
    const TrainSetup s = setup();
    EXPECT_TRUE(s.global_batch == 1024 && s.epochs == 9.9 && s.drop_last);
    EXPECT_TRUE(o_.model.label_smoothing == 0.2f && o_.model.sum_loss);
    EXPECT_TRUE(s.look_ahead == 5 && s.look_ahead_decay == 0.95 && s.tta == Tta::full);
}

/// Returns which of airbench94's batch norms still have their gradient's memory when the gradient
/// of the max-pool that feeds them is written; one answer per pair. A backend may compute both in
/// one pass, which writes the pool's gradient while it reads the batch norm's.
std::vector<bool> gradients_overlap(Backend& backend) {
    const Graph graph = fuse(build_model(usual_images("airbench94")));
    const PreparedProgram prepared = prepare_program(graph, backend, {2, 2, 0, true});
    std::vector<bool> overlap;
    for (const Op& op : graph.ops)
        for (const Op& reader : graph.ops) {
            const auto* pool = std::get_if<Pool>(&op);
            const auto* norm = std::get_if<BatchNorm>(&reader);
            if (!pool || !norm || norm->x != pool->y) continue;
            const Lifetime& written = prepared.buffers.at(size_t(prepared.gradient.at(size_t(pool->x))));
            const Lifetime& read = prepared.buffers.at(size_t(prepared.gradient.at(size_t(norm->y))));
            overlap.push_back(read.last >= written.first);
        }
    return overlap;
}

// On GPUs one kernel does both. On CPUs two launches do, and the memory is free in between.
TEST(Airbench94, ABatchNormsGradientLivesUntilThatOfItsPoolOnGpusOnly) {
    DryRunBackend gpu("no GPU", size_t(1) << 40, "", {}, 1);
    EXPECT_EQ(gradients_overlap(gpu), std::vector<bool>(3, true));
    EXPECT_EQ(gradients_overlap(*make_test_backend("cpu")), std::vector<bool>(3, false));
}

TEST(Airbench94, LookAheadKeepsMoreAndMore) {
    const std::vector<float> d = look_ahead_decays(5, 0.95, 476);
    ASSERT_EQ(d.size(), 477u);
    for (int step = 0; step <= 475; ++step)
        EXPECT_FLOAT_EQ(d[step], step == 0 || step % 5 ? -1 : float(0.7737809375 * std::pow(step / 476.0, 3))) << step;
    EXPECT_EQ(d[476], 1);
    EXPECT_FLOAT_EQ(look_ahead_decays(5, 0.95, 10)[10], 0.7737809375f) << "the last average is a step's own";
    EXPECT_EQ(look_ahead_decays(0, 0.95, 3), (std::vector<float>{-1, -1, -1, -1}));
}

TEST(Airbench94, TestImagesHaveSixViews) {
    const std::vector<WeighedView> views = views_of(Tta::full, {});
    ASSERT_EQ(views.size(), 6u);
    double sum = 0;
    for (const WeighedView& v : views) {
        sum += double(v.weight);
        EXPECT_EQ(v.view.dy, v.view.dx);
        EXPECT_EQ(v.weight, v.view.dy == 0 ? 0.25f : 0.125f);
        EXPECT_TRUE(v.view.fixed && v.view.reflect);
    }
    EXPECT_EQ(sum, 1);
    EXPECT_EQ(views_of(Tta::mirror, {}).size(), 2u);
    EXPECT_EQ(views_of(Tta::plain, {}).size(), 1u);
    EXPECT_EQ("",
              problem_of_error(Exit::usage, {"--tta", "all", "mirror"}, [] { choose("tta", "all", tta_choices()); }));
}

// A linear model's logits over all pixels can be summed by hand for each view.
TEST(Airbench94, LogitsOfTheViewsAreAveraged) {
    constexpr int side = 28, pixels = side * side;
    const TempDir dir;
    make_data(dir.path("data"), 20, 45, "28x28x1", 1);
    const std::unique_ptr<Backend> cpu = make_test_backend("cpu");
    const SplitReader reader(dir.path("data"), "test");
    const DataSet data(test_comm(), *cpu, reader);
    const Graph graph = build_model({"mnist-linear", side, side, 1, 10});
    State state(graph, *cpu, nullptr);
    state.initialise(graph, *cpu, 4);
    const float *weight = state.params()[0].as<float>(), *bias = state.params()[1].as<float>();
    const auto mirrored = [](int i) { return i < 0 ? -i : i >= side ? 2 * side - 2 - i : i; };
    const std::vector<std::vector<std::array<double, 3>>> views = {
        // shift, mirror, weight
        {{0, 0, 1}},
        {{0, 0, 0.5}, {0, 1, 0.5}},
        {{0, 0, 0.25}, {0, 1, 0.25}, {-1, 0, 0.125}, {-1, 1, 0.125}, {1, 0, 0.125}, {1, 1, 0.125}}};
    std::vector<double> losses;
    for (const Tta tta : {Tta::plain, Tta::mirror, Tta::full}) {
        double loss = 0;
        for (int n = 0; n < 45; ++n) {
            double logits[10], sum = 0;
            for (int k = 0; k < 10; ++k) logits[k] = double(bias[k]);
            for (const auto& [shift, mirror, share] : views[size_t(tta)])
                for (int i = 0; i < side; ++i)
                    for (int j = 0; j < side; ++j) {
                        const int row = mirrored(i + int(shift)),
                                  column = mirrored((mirror > 0 ? side - 1 - j : j) + int(shift));
                        const double v =
                            (data.images().as<uint8_t>()[n * pixels + row * side + column] / 255.0 - 0.5) / 0.25;
                        for (int k = 0; k < 10; ++k) logits[k] += share * v * double(weight[k * pixels + i * side + j]);
                    }
            for (double z : logits) sum += std::exp(z);
            loss += std::log(sum) - logits[data.labels().as<int32_t>()[n]];
        }
        Evaluator evaluator(test_comm(), *cpu, graph, state, data, {{0.5f}, {0.25f}}, 20, tta);
        evaluator.build({cpu->allocate(evaluator.arena_bytes())});
        EXPECT_NEAR(evaluator.run()->loss, loss / 45, 1e-5) << int(tta);
        EXPECT_NEAR(evaluator.run()->loss, loss / 45, 1e-5) << "again";
        losses.push_back(loss / 45);
    }
    EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-3) << "the views must matter for this test to mean anything";
    EXPECT_GT(std::abs(losses[1] - losses[2]), 1e-3);
}

TEST(Airbench94, ImagesOfOnePixelAreRefusedInOneLine) {
    const TempDir dir;
    make_data(dir.path("pixels"), 40, 8, "1x1x10");
    const std::string command = "train --data " + dir.path("pixels") + " --model linear --batch-size 10 --tta full";
    EXPECT_EQ("", refusal(launch(2, command + " --output " + dir.path("run")), Exit::usage, {"--tta full", "a pixel"}));
}

class AirbenchRuns : public testing::Test {
protected:
    AirbenchRuns() { make_data(dir_.path("data"), 210, 40, "32x32x3", 2); }
    std::string train(const std::string& run, const std::string& more = "") const {
        return "train --config input/recipes/airbench94.cfg --data " + dir_.path("data") +
               " --batch-size 20 --epochs 2.35 --whitening-bias-epochs 1 --log-interval 1 --output " + dir_.path(run) +
               " " + more;
    }
    TempDir dir_;
};

// Checkpoints lie between two averages, so the average must be restored as well as the weights. One
// checkpoint is before the whitening bias is frozen, one after it.
TEST_F(AirbenchRuns, GoOnBitForBit) {
    ASSERT_EQ("", failure(launch(2, train("whole", "--checkpoint-every 7 --keep 9"), 200)));
    const std::vector<double> steps = column(dir_.path("whole"), "train/step"),
                              losses = column(dir_.path("whole"), "train/loss");
    ASSERT_EQ(steps.size(), 24u) << "2.35 epochs of 10 steps";
    for (const int from : {7, 14}) {
        const std::string run = "from" + std::to_string(from);
        ASSERT_EQ(
            "",
            failure(launch(
                2, train(run, "--checkpoint-every none --resume " + checkpoint_path(dir_.path("whole"), from)), 200)));
        EXPECT_EQ(column(dir_.path(run), "train/loss"), std::vector<double>(losses.begin() + from, losses.end()));
        EXPECT_EQ(tensors(dir_.path(run) + "/model.h5"), tensors(dir_.path("whole") + "/model.h5"));
    }
    EXPECT_EQ("",
              refusal(convoy_alone(train("other", "--look-ahead 0 --resume " + checkpoint_path(dir_.path("whole"), 7))),
                      Exit::usage, {"look-ahead", "was on", "has none"}));
}

TEST_F(AirbenchRuns, EndWithTheAverage) {
    ASSERT_EQ("", failure(launch(1, train("run"), 200)));
    const auto end = tensors(checkpoint_path(dir_.path("run"), 24));
    size_t averages = 0;
    for (const auto& [name, values] : end) {
        if (!name.ends_with(".slow")) continue;
        ++averages;
        EXPECT_EQ(end.at(name.substr(0, name.size() - 5)), values) << name;
        EXPECT_EQ(tensors(dir_.path("run") + "/model.h5").at(name.substr(0, name.size() - 5)), values) << name;
    }
    EXPECT_EQ(averages, 14u);
    const Finished f =
        convoy_alone("evaluate --tta full --model-file " + dir_.path("run") + "/model.h5 --data " + dir_.path("data"));
    ASSERT_EQ("", failure(f));
    EXPECT_NEAR(score_of(f.out).loss, column(dir_.path("run"), "eval/loss").back(), 1e-4);
    const Finished plain =
        convoy_alone("evaluate --model-file " + dir_.path("run") + "/model.h5 --data " + dir_.path("data"));
    EXPECT_NE(score_of(plain.out).loss, score_of(f.out).loss);
}

TEST_F(AirbenchRuns, RefuseWhatCannotBe) {
    EXPECT_EQ("", refusal(convoy_alone(train("x", "--lr auto")), Exit::usage, {"--lr auto", "kilostep"}));
    EXPECT_EQ("", refusal(convoy_alone(train("x", "--lr 0")), Exit::usage, {"decoupled", "--lr"}));
    EXPECT_EQ("", refusal(convoy_alone(train("x", "--lr-points 0:1,50%:2")), Exit::usage, {"--lr-points", "percent"}));
}

}  // namespace
}  // namespace convoy::test
