// Muon on every device, compared with its formulas in double on wide and tall matrices, and the
// rates of its recipe.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/train_setup.h"
#include "model/models.h"
#include "tests/ops/op_cases.h"
#include "train/setup.h"

namespace convoy::test {
namespace {

/// Returns c [n][m] = a [n][k] b [k][m].
Doubles product(const Doubles& a, const Doubles& b, size_t n, size_t k, size_t m) {
    Doubles c(n * m);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < m; ++j)
            for (size_t l = 0; l < k; ++l) c[i * m + j] += a[i * k + l] * b[l * m + j];
    return c;
}
double norm(const Doubles& v) {
    double sum = 0;
    for (double e : v) sum += e * e;
    return std::sqrt(sum);
}

/// Returns x [n][m] after three iterations.
Doubles orthogonalised(Doubles x, size_t n, size_t m) {
    const double length = norm(x) + 1e-7;
    for (double& e : x) e /= length;
    for (int k = 0; k < 3; ++k) {
        Doubles across(n * m);
        for (size_t i = 0; i < n; ++i)
            for (size_t j = 0; j < m; ++j) across[j * n + i] = x[i * m + j];
        Doubles a = product(x, across, n, m, n), b = product(a, a, n, n, n);
        for (size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * b[i];
        const Doubles more = product(b, x, n, n, m);
        for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + more[i];
    }
    return x;
}

class MuonOn : public testing::TestWithParam<std::string> {};

TEST_P(MuonOn, StepsAlongOrthogonalMatrices) {
    Backend* const backend = &shared_backend(GetParam());
    for (const auto& [rows, columns] : {std::pair<size_t, size_t>{6, 18}, {16, 5}, {1, 7}, {8, 8}}) {
        const size_t n = rows * columns, begin = 32, count = begin + (n + 15) / 16 * 16;
        Floats start = normals(count, 1), slopes = normals(count, 2);
        for (size_t i = begin + n; i < count; ++i) start[i] = slopes[i] = 0;  // padding of the arena
        const Buffer weights = upload(*backend, start), gradients = upload(*backend, slopes),
                     state = upload(*backend, Floats(count)), rates = upload(*backend, Floats(3, 0.1f)),
                     stats = upload(*backend, Floats(stats_elements)),
                     counters = upload(*backend, std::vector<Counters>(1));
        const auto f = [](const Buffer& b) { return static_cast<float*>(b.get()); };
        OptimizerSpec spec{OptimizerSpec::sgd, 0.85f, true};
        spec.muon_momentum = 0.6f;
        UpdateSegment matrix{begin, count, 0, 2.4f};
        matrix.rows = int(rows);
        matrix.columns = int(columns);
        Tape tape;
        backend->update({spec,
                         f(weights),
                         f(gradients),
                         f(state),
                         count,
                         {{0, begin, 0}, matrix},
                         f(rates),
                         static_cast<const Counters*>(counters.get()),
                         static_cast<BatchStats*>(stats.get()),
                         false},
                        tape);
        const auto run = backend->finish(std::move(tape));
        const Doubles all = widened(start), all_gradients = widened(slopes);
        Doubles w(all.begin() + ptrdiff_t(begin), all.begin() + ptrdiff_t(begin + n)), buffer(n);
        for (int step = 0; step < 3; ++step) {
            run();
            backend->synchronize();
            Doubles x(n);
            for (size_t i = 0; i < n; ++i) {
                const double g = all_gradients[begin + i];
                buffer[i] = 0.6 * buffer[i] + g;
                x[i] = g + 0.6 * buffer[i];
            }
            const double scale = std::sqrt(double(rows)) / norm(w);
            x = orthogonalised(x, rows, columns);
            for (size_t i = 0; i < n; ++i) w[i] = scale * w[i] - 0.24 * x[i];
        }
        const Floats got = download<float>(*backend, weights.get(), count),
                     moment = download<float>(*backend, state.get(), count);
        for (size_t i = 0; i < n; ++i) {
            ASSERT_NEAR(got[begin + i], w[i], 2e-5) << rows << "x" << columns << " element " << i;
            ASSERT_NEAR(moment[begin + i], buffer[i], 2e-6);
        }
        for (size_t i = n; begin + i < count; ++i) EXPECT_EQ(got[begin + i], 0) << "what pads the arena stays zero";
        EXPECT_NE(got[0], float(all[0])) << "the rest is trained by sgd";
    }
}

INSTANTIATE_TEST_SUITE_P(All, MuonOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

TEST(Muon, RecipeHasItsRates) {
    const TrainOptions o =
        parse_train_options({"--config", "input/recipes/airbench94-muon.cfg", "--data", "x"}).options;
    SplitInfo cifar10;
    cifar10.images = 50'000;
    cifar10.height = cifar10.width = 32;
    cifar10.channels = 3;
    const TrainSetup s = setup_of(o, cifar10, 1, std::nullopt);
    const ParamRules rules = param_rules(s, 25);
    int filters = 0;
    for (const Param& p : build_model({o.model.name, 32, 32, 3, 10}).params) {
        if (!p.trained || p.frozen) continue;
        const ParamRule rule = rules(p);
        const bool filter = p.name.find(".conv") != std::string::npos;
        filters += filter;
        EXPECT_EQ(rule.muon, filter) << p.name;
        const double rate = filter ? 0.24 : p.name == "fc.weight" ? 0.67 : 0.053;
        EXPECT_NEAR(s.schedule.base * double(rule.learning_rate), rate, 1e-6) << p.name;
        EXPECT_NEAR(double(rule.weight_decay) * rate, filter ? 0 : 2e-6 * 2000, 1e-8) << p.name;
        EXPECT_EQ(rule.steps, p.name == "whitening.bias" ? 75 : INT64_MAX);
    }
    EXPECT_EQ(filters, 6);
    for (const int step : {0, 50, 199})
        EXPECT_NEAR(learning_rate(s.schedule, step, 25, 200), 0.053 * (1 - step / 200.0), 1e-12);
    EXPECT_FLOAT_EQ(s.optimizer.muon_momentum, 0.6f);
    EXPECT_FLOAT_EQ(s.optimizer.momentum, 0.85f);
}

}  // namespace
}  // namespace convoy::test
