// The optimizer's kernels, compared with the CPU backend and with scalar loops of the shared rules.
// Covers segments smaller and larger than a block's chunk, copies in every precision and padding,
// look-ahead, and loss scaling through steps that are not finite.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

using kernels::Segment;

/// An arena like State's: the batch sums, then parameters, each padded to 16 elements.
struct Arena {
    struct Parameter {
        int64_t count;
        int channels;
        Layout copy;
    };
    std::vector<Parameter> parameters;
    std::vector<Segment> segments;
    std::vector<KernelTensor> copies;
    size_t count = stats_elements;
    Floats weights, gradients, state, rates = {0.1f, 0.3f, 0.2f, 0.05f};
    Counters counters{};
    BatchStats stats{};
    OptimizerSpec spec;

    explicit Arena(OptimizerSpec s = {}) : spec(s) {
        const Layout f32{DType::f32, 4, 0}, f16{DType::f16, 8, 0}, bf16{DType::bf16, 8, 0};
        parameters = {{1, 1, bf16},          {21 * 9 * 26, 21, bf16}, {26, 26, f16},    {10 * 3, 3, f32},
                      {3 * 4097, 4097, f16}, {64 * 64, 64, bf16},     {5 * 12, 12, f16}};
        for (int i = 0; i < 300; ++i) parameters.push_back({1 + i % 40, 1 + i % 40, bf16});  // many in one chunk
        float decay = 0;
        for (const Parameter& p : parameters) {
            Segment segment;
            segment.begin = int64_t(count);
            count += (size_t(p.count) + 15) / 16 * 16;
            segment.end = int64_t(count);
            segment.weight_decay = decay = 0.01f - decay;
            segment.count = p.count;
            segment.channels = p.channels;
            copies.emplace_back(Shape{int(p.count / p.channels), 1, 1, p.channels}, p.copy);
            copies.back().put(Floats(size_t(p.count), NAN));  // padding is zero and never written
            segment.copy = copies.back().tensor().data;
            segment.copy_type = p.copy.type;
            segment.stored = copies.back().tensor().shape.c;
            segments.push_back(segment);
        }
        segments[3].copy = nullptr;
        weights = real(1);
        gradients = real(2);
        state = Floats(count * size_t(spec.state_per_element()));
    }
    Floats real(uint64_t seed) const { return values_of(segments, count, seed); }
    Update update() {
        return {spec, weights.data(), gradients.data(), state.data(), count,
                {},   rates.data(),   &counters,        &stats,       false};
    }
    void step(const kernels::LossScale* scale = nullptr) {
        kernels::update(update(), segments.data(), int(segments.size()), scale, nullptr);
    }
    void expect_copies() const {
        for (size_t i = 0; i < segments.size(); ++i) {
            if (!segments[i].copy) continue;
            const auto begin = weights.begin() + segments[i].begin;
            ASSERT_EQ(copies[i].get(), rounded(Floats(begin, begin + segments[i].count), segments[i].copy_type)) << i;
            ASSERT_TRUE(copies[i].padding_is_zero()) << i;
        }
    }
};

const std::vector<OptimizerSpec>& specs() {
    static const std::vector<OptimizerSpec> all = {{}, {OptimizerSpec::sgd, 0.85f, true}, {OptimizerSpec::adam}};
    return all;
}

// Four steps. Both backends run the same rule; they may differ in which multiply-adds are fused.
// That is twice per step, by 6e-8 of values around 1, of which later steps may cancel a part.
void expect_same(const Floats& got, const Floats& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 5e-7 * (1 + std::abs(double(expected[i])))) << i;
}

TEST(KernelOptimizer, IsTheCpuBackends) {
    const auto cpu = make_test_backend("cpu");
    for (const OptimizerSpec& spec : specs())
        for (const Order order : {Order::forward, Order::shuffled}) {
            set_thread_order(order);
            Arena kernel(spec), reference(spec);
            Update u = reference.update();
            for (const Segment& s : reference.segments)
                u.segments.push_back({size_t(s.begin), size_t(s.end), s.weight_decay});
            Tape tape;
            cpu->update(u, tape);
            const auto run = cpu->finish(tape);
            for (int step = 0; step < 4; ++step) {
                kernel.counters.step = reference.counters.step = step;
                kernel.gradients = kernel.real(10 + uint64_t(step));
                // the reference's tape has this address
                std::copy(kernel.gradients.begin(), kernel.gradients.end(), reference.gradients.begin());
                kernel.step();
                run();
            }
            expect_same(kernel.weights, reference.weights);
            expect_same(kernel.state, reference.state);
            kernel.expect_copies();
            for (size_t i = 0; i < stats_elements; ++i)
                EXPECT_EQ(kernel.weights[i], 0) << "the batch sums are no parameter";
        }
    set_thread_order(Order::forward);
}

TEST(KernelOptimizer, ASegmentHasItsOwnRateAndEnd) {
    Arena a;
    a.segments[1].learning_rate = 64;
    a.segments[4].steps = 1;
    const Floats before = a.weights;
    for (a.counters.step = 0; a.counters.step < 2; ++a.counters.step) a.step();
    for (const size_t i : {size_t(0), size_t(1), size_t(4)}) {
        const Segment& s = a.segments[i];
        for (int64_t e = s.begin; e < s.begin + s.count; ++e) {
            float w = before[e], v = 0;
            for (size_t step = 0; step < (i == 4 ? 1 : 2); ++step)
                sgd_update(a.spec, a.rates[step] * s.learning_rate, s.weight_decay, a.gradients[e], w, v);
            ASSERT_NEAR(a.weights[e], w, 5e-7 * (1 + std::abs(w))) << e;
        }
    }
    a.expect_copies();
}

TEST(KernelOptimizer, UnscalesGradients) {
    for (const OptimizerSpec& spec : specs()) {
        Arena plain(spec), scaled(spec);
        kernels::LossScale scale;
        for (float& g : scaled.gradients) g *= scale.scale;  // a power of two: exact
        plain.step();
        scaled.step(&scale);
        EXPECT_EQ(scaled.weights, plain.weights);
        EXPECT_EQ(scaled.state, plain.state);
    }
}

TEST(KernelOptimizer, LeavesOutAStepThatIsNotFinite) {
    Arena a;
    a.step();
    const Floats weights = a.weights, state = a.state;
    for (const float bad : {NAN, INFINITY, -INFINITY})
        for (const size_t at : {size_t(0), size_t(4097), a.count - 1}) {
            kernels::LossScale scale;
            const float good = std::exchange(a.gradients[at], bad);
            kernels::check_finite(a.gradients.data(), a.count, &scale, nullptr);
            EXPECT_EQ(scale.finite, 0);
            a.step(&scale);
            kernels::adjust_loss_scale(&scale, 2000, nullptr);
            EXPECT_EQ(a.weights, weights);
            EXPECT_EQ(a.state, state);
            EXPECT_EQ(scale.scale, 32768);
            EXPECT_EQ(scale.skipped, 1);
            a.gradients[at] = good;
            kernels::check_finite(a.gradients.data(), a.count, &scale, nullptr);
            EXPECT_EQ(scale.finite, 1) << "the next step counts again";
        }
    a.expect_copies();
}

TEST(KernelOptimizer, FindsWhatIsNotFiniteAnywhere) {
    for (const size_t count : {size_t(1), size_t(3), size_t(4), size_t(1023), size_t(9000)})
        for (size_t at = 0; at < count; at += 1 + count / 7) {
            Floats gradients(count, 3e38f);
            kernels::LossScale scale;
            kernels::check_finite(gradients.data(), count, &scale, nullptr);
            EXPECT_EQ(scale.finite, 1);
            gradients[at] = NAN;
            kernels::check_finite(gradients.data(), count, &scale, nullptr);
            EXPECT_EQ(scale.finite, 0) << count << " " << at;
        }
}

TEST(KernelOptimizer, TheLossScaleGrowsAndIsBounded) {
    kernels::LossScale scale;
    for (int step = 1; step <= 6; ++step) {
        kernels::adjust_loss_scale(&scale, 3, nullptr);
        EXPECT_EQ(scale.scale, 65536.0f * float(1 << step / 3));
    }
    scale.good_steps = 2;
    scale.finite = 0;
    kernels::adjust_loss_scale(&scale, 3, nullptr);
    EXPECT_EQ(scale.good_steps, 0) << "the count begins again";
    for (int step = 0; step < 300; ++step) kernels::adjust_loss_scale(&scale, 1, nullptr);
    EXPECT_TRUE(std::isfinite(scale.scale));
}

// Outcome of a step: (finite gradients, loss, skipped before) -> (finite, skipped).
TEST(KernelOptimizer, DecidesAboutAStep) {
    const auto decide = [](bool finite, float loss, bool latch, bool scaled, float scale = 1024, bool before = false) {
        kernels::LossScale state;
        state.finite = finite;
        state.scale = scale;
        BatchStats stats;
        stats.loss_sum = loss;
        stats.skipped = float(before);
        kernels::decide_update(&state, &stats, latch, scaled, nullptr);
        return std::pair(state.finite == 1, stats.skipped > 0);
    };
    using Outcome = std::pair<bool, bool>;
    EXPECT_EQ(decide(true, 2, false, false), Outcome(true, false));
    EXPECT_EQ(decide(false, 2, false, false), Outcome(false, true));
    EXPECT_EQ(decide(true, NAN, false, false), Outcome(false, true));
    EXPECT_EQ(decide(true, -INFINITY, false, true), Outcome(false, true));
    EXPECT_EQ(decide(false, 2, false, true), Outcome(false, false)) << "a lower scale will mend it";
    EXPECT_EQ(decide(false, 2, false, true, 1), Outcome(false, true)) << "there is no lower scale";
    EXPECT_EQ(decide(true, 2, false, false, 1024, true), Outcome(true, false));
    EXPECT_EQ(decide(true, 2, true, false, 1024, true), Outcome(false, true)) << "once is for ever";
    EXPECT_EQ(decide(true, 2, true, true, 1024, true), Outcome(false, true));
}

TEST(KernelOptimizer, TheLossScaleMayStay) {
    kernels::LossScale scale;
    scale.finite = 0;
    for (int step = 0; step < 3; ++step) kernels::adjust_loss_scale(&scale, 0, nullptr);
    EXPECT_EQ(scale.scale, 65536);
    EXPECT_EQ(scale.skipped, 1);
    EXPECT_EQ(scale.finite, 1);
}

TEST(KernelOptimizer, LookAheadAveragesWhereThereIsADecay) {
    Arena a;
    Floats slow = a.real(3);
    const Floats decays = {-1, -1, -1, -1, -1, 0.6f, -1, 1}, w = a.weights, average = slow;
    BatchStats stats;
    const auto look = [&](int64_t step) {
        a.counters.step = step;
        kernels::look_ahead(a.weights.data(), slow.data(), a.segments.data(), int(a.segments.size()), a.count,
                            decays.data(), &a.counters, &stats, nullptr);
    };
    for (const int step : {0, 1, 3, 5}) look(step);
    stats.skipped = 1;
    look(4);
    EXPECT_EQ(a.weights, w);
    EXPECT_EQ(slow, average);
    {  // without statistics it does not matter whether the update was skipped
        Floats other = w, own = average;
        kernels::look_ahead(other.data(), own.data(), a.segments.data(), int(a.segments.size()), a.count, decays.data(),
                            &a.counters, nullptr, nullptr);
        EXPECT_NE(own, average);
    }
    stats.skipped = 0;
    look(4);
    EXPECT_EQ(a.weights, slow);
    // values up to 5
    for (size_t i = 0; i < a.count; ++i)
        ASSERT_NEAR(slow[i], 0.6 * double(average[i]) + 0.4 * double(w[i]), 3e-7 * 5) << i;
    a.expect_copies();
    const Floats before = slow;
    a.weights = w;
    look(6);
    EXPECT_EQ(slow, before) << "at the end the weights become the average";
    EXPECT_EQ(a.weights, before);
}

TEST(KernelOptimizer, CopiesAreRefreshed) {
    Arena a;
    for (size_t i = 0; i < a.segments.size(); ++i) {  // like backend/cuda/weight_copies.cpp after an upload
        const kernels::Segment& s = a.segments[i];
        if (s.copy)
            kernels::pad(a.weights.data() + s.begin, s.count / s.channels, s.channels, a.copies[i].tensor(), nullptr);
    }
    a.expect_copies();
}

TEST(KernelOptimizer, RefusesAnArenaThatIsNotAligned) {
    Arena a;
    Update u = a.update();
    u.count -= 1;
    EXPECT_THROW(kernels::update(u, a.segments.data(), 1, nullptr, nullptr), std::logic_error);
    u = a.update();
    ++u.gradients;
    EXPECT_THROW(kernels::update(u, a.segments.data(), 1, nullptr, nullptr), std::logic_error);
}

}  // namespace
}  // namespace convoy::test
