// The end of a step, on every device: the optimizer rules, compared with their formulas in double
// over several steps, weight decay by segment, and the records and counters.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_cases.h"
#include "train/state.h"

namespace convoy::test {
namespace {

constexpr size_t count = 80;  // two segments of 32 and 48 elements; an arena is a multiple of 16
constexpr size_t split = 32;
constexpr int steps = 12;

/// Returns weights after `steps` updates, by PyTorch's documented formulas.
Doubles expected_weights(const OptimizerSpec& o, const Floats& rates, const double (&decay)[2]) {
    Doubles w = widened(normals(count, 1)), first(count, 0), second(count, 0);
    for (int t = 1; t <= steps; ++t) {
        const Doubles gradients = widened(normals(count, 10 + uint64_t(t)));
        const double lr = rates[t - 1];
        for (size_t i = 0; i < count; ++i) {
            const double g = gradients[i] + decay[i >= split] * w[i];
            if (o.kind == OptimizerSpec::sgd) {
                first[i] = double(o.momentum) * first[i] + g;
                w[i] -= lr * (o.nesterov ? g + double(o.momentum) * first[i] : first[i]);
            } else {
                const double b1 = o.beta1, b2 = o.beta2;
                first[i] = b1 * first[i] + (1 - b1) * g;
                second[i] = b2 * second[i] + (1 - b2) * g * g;
                const double m = first[i] / (1 - std::pow(b1, t)), v = second[i] / (1 - std::pow(b2, t));
                w[i] -= lr * m / (std::sqrt(v) + double(o.epsilon));
            }
        }
    }
    return w;
}

class StepOn : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    /// Returns weights after `steps` updates on the device, from the same start and gradients.
    Floats updated(const OptimizerSpec& o, const Floats& rates, const double (&decay)[2]) {
        const Buffer weights = upload(*backend_, normals(count, 1)), gradients = upload(*backend_, Floats(count)),
                     state = upload(*backend_, Floats(count * size_t(o.state_per_element()))),
                     device_rates = upload(*backend_, rates), stats = upload(*backend_, Floats(stats_elements)),
                     counters = upload(*backend_, std::vector<Counters>(1));
        const auto f = [](const Buffer& b) { return static_cast<float*>(b.get()); };
        const Update u{o,
                       f(weights),
                       f(gradients),
                       f(state),
                       count,
                       {{0, split, float(decay[0])}, {split, count, float(decay[1])}},
                       f(device_rates),
                       static_cast<const Counters*>(counters.get()),
                       static_cast<BatchStats*>(stats.get()),
                       false};
        Tape tape;
        backend_->update(u, tape);
        const auto run = backend_->finish(std::move(tape));
        for (int t = 1; t <= steps; ++t) {
            const Floats g = normals(count, 10 + uint64_t(t));
            Counters now;
            now.step = t - 1;
            backend_->upload(gradients.get(), g.data(), count * sizeof(float));
            backend_->upload(counters.get(), &now, sizeof now);
            run();
            backend_->synchronize();
        }
        return download<float>(*backend_, weights.get(), count);
    }

    void check(const OptimizerSpec& o) {
        Floats rates;
        for (int t = 0; t < steps; ++t) rates.push_back(0.1f / float(1 + t));
        for (const auto& decay : {std::pair{0.0, 0.0}, std::pair{0.01, 0.0}, std::pair{0.01, 0.2}}) {
            const double both[2] = {double(float(decay.first)), double(float(decay.second))};
            const Floats got = updated(o, rates, both);
            const Doubles expected = expected_weights(o, rates, both);
            for (size_t i = 0; i < count; ++i)  // a dozen updates of size 1, each rounded
                ASSERT_NEAR(got[i], expected[i], 2e-6 * (1 + std::abs(expected[i])))
                    << "decay " << both[i >= split] << " element " << i;
        }
    }
};

// Segments differ in rate and length of training. Finished segments keep weights and momentum.
TEST_P(StepOn, SegmentsHaveTheirOwnRateAndEnd) {
    const OptimizerSpec spec{OptimizerSpec::sgd, 0.85f, true};
    const Buffer weights = upload(*backend_, normals(count, 1)), gradients = upload(*backend_, normals(count, 2)),
                 state = upload(*backend_, Floats(count)), rates = upload(*backend_, Floats(steps, 0.01f)),
                 stats = upload(*backend_, Floats(stats_elements)),
                 counters = upload(*backend_, std::vector<Counters>(1));
    const auto f = [](const Buffer& b) { return static_cast<float*>(b.get()); };
    Tape tape;
    backend_->update({spec,
                      f(weights),
                      f(gradients),
                      f(state),
                      count,
                      {{0, split, 0, 64, 3}, {split, count, 0.5f}},
                      f(rates),
                      static_cast<const Counters*>(counters.get()),
                      static_cast<BatchStats*>(stats.get()),
                      false},
                     tape);
    const auto run = backend_->finish(std::move(tape));
    Doubles w = widened(normals(count, 1)), velocity(count, 0);
    const Doubles g = widened(normals(count, 2));
    for (int t = 0; t < 5; ++t) {
        Counters now;
        now.step = t;
        backend_->upload(counters.get(), &now, sizeof now);
        run();
        backend_->synchronize();
        for (size_t i = 0; i < count; ++i) {
            if (i < split && t >= 3) continue;
            const double step = g[i] + (i < split ? 0 : 0.5) * w[i];
            velocity[i] = double(0.85f) * velocity[i] + step;
            w[i] -= (i < split ? 0.64 : 0.01) * (step + double(0.85f) * velocity[i]);
        }
    }
    const Floats got = download<float>(*backend_, weights.get(), count),
                 moment = download<float>(*backend_, state.get(), count);
    for (size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(got[i], w[i], 2e-6 * (1 + std::abs(w[i]))) << i;
        ASSERT_NEAR(moment[i], velocity[i], 2e-6 * (1 + std::abs(velocity[i]))) << i;
    }
}

/// Weights and running statistics with their averages on a device. The decay is 0.75 after step 2
/// and 1 after step 4.
struct LookAheadOn {
    static constexpr size_t running_count = 32;
    Backend& backend;
    const Floats w = normals(count, 1), average = normals(count, 2), r = normals(running_count, 3),
                 slow_r = normals(running_count, 4);
    const Buffer weights = upload(backend, w), slow = upload(backend, average), running = upload(backend, r),
                 slow_running = upload(backend, slow_r), decays = upload(backend, Floats{-1, -1, 0.75f, -1, 1}),
                 stats = upload(backend, Floats(stats_elements)), counters = upload(backend, std::vector<Counters>(1));

    /// Builds a look-ahead; `asked`: it is skipped if the update was.
    std::function<void()> built(bool asked) const {
        const auto f = [](const Buffer& b) { return static_cast<float*>(b.get()); };
        Tape tape;
        backend.look_ahead({f(weights),
                            f(slow),
                            count,
                            {{0, count, 0}},
                            f(running),
                            f(slow_running),
                            running_count,
                            f(decays),
                            static_cast<const Counters*>(counters.get()),
                            asked ? static_cast<const BatchStats*>(stats.get()) : nullptr},
                           tape);
        return backend.finish(std::move(tape));
    }
    /// Runs it after `step` completed steps, within the next one.
    void at(const std::function<void()>& run, int64_t step, float skipped = 0) const {
        Counters now;
        now.step = step;
        BatchStats of_step;
        of_step.skipped = skipped;
        backend.upload(counters.get(), &now, sizeof now);
        backend.upload(stats.get(), &of_step, sizeof of_step);
        run();
        backend.synchronize();
    }
    void reset_weights() const { backend.upload(weights.get(), w.data(), w.size() * sizeof(float)); }
    Floats values(const Buffer& b, size_t n = count) const { return download<float>(backend, b.get(), n); }
};

TEST_P(StepOn, LookAheadAveragesWhereThereIsADecay) {
    const LookAheadOn on{*backend_};
    const auto run = on.built(true);
    on.at(run, 0);
    on.at(run, 2);
    on.at(run, 1, 1);
    EXPECT_EQ(on.values(on.weights), on.w);
    EXPECT_EQ(on.values(on.slow_running, on.running_count), on.slow_r);
    on.at(run, 1);
    EXPECT_EQ(on.values(on.weights), on.values(on.slow));
    const Floats running = on.values(on.running, on.running_count), slow = on.values(on.slow);
    EXPECT_EQ(running, on.values(on.slow_running, on.running_count));
    for (size_t i = 0; i < count; ++i)
        ASSERT_NEAR(slow[i], 0.75 * double(on.average[i]) + 0.25 * double(on.w[i]), 1e-6);
    for (size_t i = 0; i < on.running_count; ++i)
        ASSERT_NEAR(running[i], 0.75 * double(on.slow_r[i]) + 0.25 * double(on.r[i]), 1e-6);
    on.reset_weights();
    on.at(run, 3);
    EXPECT_EQ(on.values(on.slow), slow) << "at the end the average stays";
    EXPECT_EQ(on.values(on.weights), slow) << "and the weights become it";
}

TEST_P(StepOn, LookAheadThatDoesNotAskWhatBecameOfTheUpdateIsNeverLeftOut) {
    const LookAheadOn on{*backend_};
    const auto asks = on.built(true), does_not_ask = on.built(false);
    on.at(asks, 1);
    const Floats before = on.values(on.slow);
    on.reset_weights();
    on.at(does_not_ask, 3, 1);
    EXPECT_EQ(on.values(on.weights), before);
    on.at(asks, 1, 1);
    EXPECT_EQ(on.values(on.slow), before);
    on.reset_weights();
    on.at(does_not_ask, 1, 1);
    const Floats slow = on.values(on.slow);
    for (size_t i = 0; i < count; ++i) ASSERT_NEAR(slow[i], 0.75 * double(before[i]) + 0.25 * double(on.w[i]), 1e-6);
}

TEST_P(StepOn, SgdFollowsItsFormula) {
    for (const float momentum : {0.0f, 0.9f}) check({OptimizerSpec::sgd, momentum, false});
}
TEST_P(StepOn, NesterovFollowsItsFormula) { check({OptimizerSpec::sgd, 0.9f, true}); }
TEST_P(StepOn, AdamFollowsItsFormula) { check({OptimizerSpec::adam}); }
TEST_P(StepOn, AdamTakesOtherConstants) { check({OptimizerSpec::adam, 0, false, 0.8f, 0.95f, 1e-3f}); }

TEST_P(StepOn, StateDecaysAllOrWeightsOnly) {
    GraphBuilder b("test", 4, 4, 3, 2);
    const ValueId x = b.batch_norm("bn", b.conv("conv", b.input(), 5, 3, 1, 0, {Init::normal, 1}, true));
    const Graph g = b.finish(b.linear("fc", x, 2), 0);
    const OptimizerSpec spec;
    const State state(g, *backend_, &spec);
    const auto decay_of = [&](const Update& u, const char* name) {
        for (const NamedTensor& t : state.model())
            if (t.name == name) {
                const size_t at = size_t(static_cast<float*>(t.tensor.data) - u.weights);
                for (const UpdateSegment& s : u.segments)
                    if (at >= s.begin && at + t.tensor.count() <= s.end) return double(s.weight_decay);
            }
        return -1.0;
    };
    for (const bool only : {false, true}) {
        const Update u = state.update(spec, 0.5f, only);
        for (const char* name : {"conv.weight", "fc.weight"}) EXPECT_EQ(decay_of(u, name), 0.5) << name;
        for (const char* name : {"conv.bias", "fc.bias", "bn.scale", "bn.bias"})
            EXPECT_EQ(decay_of(u, name), only ? 0.0 : 0.5) << name;
        for (const char* name : {"bn.mean", "bn.var"}) EXPECT_EQ(decay_of(u, name), -1.0) << name << " is not trained";
    }
    EXPECT_EQ(state.optimizer().size(), 6u);
    EXPECT_EQ(state.optimizer()[0].name, "fc.weight.velocity") << "the arena lies in backward order";
}

TEST_P(StepOn, RecordWritesTheRingAndMovesTheCountersOn) {
    constexpr int64_t ring_size = 3, global_batch = 10;
    Counters start;
    start.step = 4;
    start.epoch = 2;
    start.offset = 20;
    const Buffer stats = backend_->allocate(stats_elements * sizeof(float)),
                 own = upload(*backend_, std::vector<BatchStats>{{.loss_sum = 3.5f, .correct = 1, .top5 = 2}}),
                 rates = upload(*backend_, Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
                 ring = upload(*backend_, std::vector<StepRecord>(ring_size)),
                 counters = upload(*backend_, std::vector<Counters>{start});
    auto* device_stats = static_cast<BatchStats*>(stats.get());
    Tape tape;
    backend_->record({.stats = device_stats,
                      .own = static_cast<BatchStats*>(own.get()),
                      .learning_rates = static_cast<float*>(rates.get()),
                      .ring = static_cast<StepRecord*>(ring.get()),
                      .ring_size = ring_size,
                      .counters = static_cast<Counters*>(counters.get()),
                      .batch = 4,
                      .global_batch = global_batch},
                     tape);
    const auto run = backend_->finish(std::move(tape));
    for (int step = 5; step <= 9; ++step) {
        const BatchStats now{.loss_sum = float(step) * 10, .correct = float(step - 4), .top5 = float(step)};
        backend_->upload(stats.get(), &now, sizeof now);
        run();
        backend_->synchronize();
    }
    const Counters end = download<Counters>(*backend_, counters.get(), 1)[0];
    EXPECT_EQ(end.step, 9);
    EXPECT_EQ(end.epoch, 2);
    EXPECT_EQ(end.offset, 70);
    const auto rows = download<StepRecord>(*backend_, ring.get(), ring_size);
    for (const int64_t step : {7, 8, 9}) {  // the ring keeps the last three: step s is in row (s - 1) % 3
        const StepRecord& row = rows[(step - 1) % ring_size];
        EXPECT_EQ(row.step, step);
        EXPECT_DOUBLE_EQ(row.loss, double(step));
        EXPECT_DOUBLE_EQ(row.accuracy, double(step - 4) / 10);
        EXPECT_DOUBLE_EQ(row.top5_accuracy, double(step) / 10);
        EXPECT_EQ(row.images, global_batch);
        EXPECT_EQ(row.own_images, 4);
        EXPECT_EQ(row.own.loss_sum, 3.5f);
        EXPECT_EQ(row.own.correct, 1);
        EXPECT_EQ(row.own.top5, 2);
        EXPECT_DOUBLE_EQ(row.learning_rate, double(step - 1));
    }
}

TEST_P(StepOn, AccumulateAddsUpAnEvaluation) {
    const Buffer stats = upload(*backend_, std::vector<BatchStats>{{.loss_sum = 2.5f, .correct = 3, .top5 = 4}}),
                 totals = upload(*backend_, std::vector<EvalTotals>(1)),
                 counters = upload(*backend_, std::vector<Counters>(1));
    Tape tape;
    backend_->accumulate(static_cast<BatchStats*>(stats.get()), static_cast<EvalTotals*>(totals.get()), 4,
                         static_cast<Counters*>(counters.get()), 16, tape);
    const auto run = backend_->finish(std::move(tape));
    for (int i = 0; i < 3; ++i) run();
    backend_->synchronize();
    const EvalTotals sum = download<EvalTotals>(*backend_, totals.get(), 1)[0];
    EXPECT_DOUBLE_EQ(sum.loss_sum, 7.5);
    EXPECT_EQ(sum.correct, 9);
    EXPECT_EQ(sum.top5, 12);
    EXPECT_EQ(sum.images, 12);
    const Counters end = download<Counters>(*backend_, counters.get(), 1)[0];
    EXPECT_EQ(end.offset, 48);
    EXPECT_EQ(end.step, 0) << "an evaluation takes no optimizer step";
}

INSTANTIATE_TEST_SUITE_P(All, StepOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
