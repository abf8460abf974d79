// Every op on every device, compared with scalar loops in double: outputs, running statistics, and
// the special properties of dropout and the loss. The cases and their tolerances are in
// op_cases.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

double largest(const Doubles& v) {
    double most = 0;
    for (double e : v) most = std::max(most, std::abs(e));
    return most;
}

/// Returns the largest deviation of `got`; infinite if anything is NaN.
double deviation(const Floats& got, const Doubles& expected) {
    double most = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const double d = std::abs(double(got[i]) - expected[i]);
        most = d >= 0 ? std::max(most, d) : INFINITY;
    }
    return most;
}

/// Returns the bias of a convolution or linear layer; none for another op.
ParamId bias_of(const Op& op) {
    if (const auto* conv = std::get_if<Conv>(&op)) return conv->bias;
    if (const auto* linear = std::get_if<Linear>(&op)) return linear->bias;
    return none;
}

class Ops : public testing::TestWithParam<OnDevice> {
protected:
    const OpCase& c_ = GetParam().op_case();
    Backend* const backend_ = &GetParam().backend();

    /// The bias of an op that stores its product in low precision before it adds the bias: a second
    /// rounding, so that the two are checked one after the other.
    const ParamId bias_added_later_ =
        GetParam().device == "cpu" || c_.type() == DType::f32 ? ParamId(none) : bias_of(c_.op());

    /// Returns a pair on which forward ran, after checking its outputs.
    Pair checked(const OpSetting& setting) {
        Pair pair(*backend_, c_, setting);
        Doubles bias;
        if (bias_added_later_ != none) {
            Doubles& reference = pair.reference.params[bias_added_later_];
            bias = std::exchange(reference, Doubles(reference.size()));
            pair.backend.set_param(bias_added_later_, Floats(bias.size()));
        }
        pair.backend.forward();
        pair.reference.run();
        check_outputs(pair);
        if (bias_added_later_ != none) {
            const ValueId y = output_of(c_.op());
            Floats expected = pair.backend.value(y);
            for (size_t i = 0; i < expected.size(); ++i) expected[i] += float(bias[i % bias.size()]);
            pair.backend.set_param(bias_added_later_, Floats(bias.begin(), bias.end()));
            pair.reference.params[bias_added_later_] = bias;
            pair.backend.forward();
            EXPECT_EQ(pair.backend.value(y), rounded(c_.type(), expected)) << "the product and its bias";
        }
        return pair;
    }

    void check_outputs(const Pair& pair) {
        if (const ValueId y = output_of(c_.op()); y != none) {
            EXPECT_LE(deviation(pair.backend.value(y), pair.reference.values[y]),
                      c_.value_tolerance * largest(pair.reference.values[y]));
        } else {
            const BatchStats stats = pair.backend.stats();
            EXPECT_NEAR(stats.loss_sum, pair.reference.loss_sum, c_.value_tolerance * pair.reference.loss_sum);
            EXPECT_EQ(stats.correct, float(pair.reference.correct));
            EXPECT_EQ(stats.top5, float(pair.reference.top5));
        }
    }
};

TEST_P(Ops, ForwardIsTheReference) {
    const Pair pair = checked(c_.setting);
    for (const ParamId id : params_of(c_.op())) {  // running statistics: one rounding of the update
        const Doubles& expected = pair.reference.params[id];
        EXPECT_LE(deviation(pair.backend.param(id), expected), 3e-7 * largest(expected)) << "parameter " << id;
    }
}

TEST_P(Ops, InferenceIsTheReference) {
    OpSetting setting = c_.setting;
    setting.training = false;
    const std::vector<Doubles> before = Pair(*backend_, c_, setting).reference.params;
    const Pair pair = checked(setting);
    for (const ParamId id : params_of(c_.op()))
        EXPECT_EQ(widened(pair.backend.param(id)), before[id]) << "parameter " << id;
}

TEST_P(Ops, RepeatBitForBit) {
    Pair pair(*backend_, c_, c_.setting);
    pair.backend.forward();
    const ValueId y = output_of(c_.op());
    const Floats first = y == none ? Floats{pair.backend.stats().loss_sum} : pair.backend.value(y);
    pair.backend.forward();
    EXPECT_EQ(first, y == none ? Floats{pair.backend.stats().loss_sum} : pair.backend.value(y));
}

INSTANTIATE_TEST_SUITE_P(All, Ops, testing::ValuesIn(all_cases()),
                         [](const auto& test) { return name_of(test.param); });

class OpsOf : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    /// Returns the output of dropout for an input of ones.
    Floats dropped(int batch, int64_t first, uint64_t seed, int64_t step, bool whole_channels, int stream,
                   float p = 0.3f) {
        Graph g;
        g.values = {{"x", 5, 5, 26}, {"y", 5, 5, 26}};
        g.ops = {Dropout{0, 1, p, whole_channels, stream}};
        OpHarness ops(*backend_, g, batch, {true, 0, first, seed, step});
        const Floats ones(size_t(batch) * 650, 1);
        ops.set_value(0, ones);
        ops.set_gradient(1, ones);
        ops.forward();
        ops.backward();
        EXPECT_EQ(ops.value(1), ops.gradient(0)) << "backward has the mask of forward";
        return ops.value(1);
    }
};

TEST_P(OpsOf, DropoutKeepsItsShare) {
    for (const float p : {0.1f, 0.5f, 0.75f}) {
        const Floats y = dropped(64, 0, 5, 0, false, 0, p);
        const double kept =
            double(std::count_if(y.begin(), y.end(), [](float v) { return v != 0; })) / double(y.size());
        EXPECT_NEAR(kept, 1 - p, 5 * std::sqrt(p * (1 - p) / double(y.size())));  // five deviations
        const std::set<float> seen(y.begin(), y.end());
        EXPECT_EQ(seen, (std::set<float>{0, 1 / (1 - p)}));
    }
}

TEST_P(OpsOf, DropoutOfChannelsDropsThemWhole) {
    const Floats y = dropped(16, 0, 5, 0, true, 0, 0.5f);
    int kept = 0;
    for (size_t n = 0; n < 16; ++n)
        for (size_t c = 0; c < 26; ++c) {
            kept += y[n * 650 + c] != 0;
            for (size_t pixel = 0; pixel < 25; ++pixel) ASSERT_EQ(y[n * 650 + pixel * 26 + c], y[n * 650 + c]);
        }
    EXPECT_NEAR(kept, 208, 5 * std::sqrt(104));
}

TEST_P(OpsOf, DropoutDoesNotDependOnTheSplitOfABatch) {
    for (const bool whole : {false, true}) {
        const Floats all = dropped(5, 10, 5, 3, whole, 1);
        Floats parts = dropped(2, 10, 5, 3, whole, 1);
        const Floats rest = dropped(3, 12, 5, 3, whole, 1);
        parts.insert(parts.end(), rest.begin(), rest.end());
        EXPECT_EQ(all, parts);
    }
}

TEST_P(OpsOf, DropoutDiffersBySampleStepSeedAndStream) {
    const Floats one = dropped(1, 10, 5, 3, false, 1);
    EXPECT_NE(one, dropped(1, 11, 5, 3, false, 1));
    EXPECT_NE(one, dropped(1, 10, 6, 3, false, 1));
    EXPECT_NE(one, dropped(1, 10, 5, 4, false, 1));
    EXPECT_NE(one, dropped(1, 10, 5, 3, false, 2));
}

TEST_P(OpsOf, LossOfExtremeLogitsIsFinite) {
    Graph g;
    g.classes = 3;
    g.values = {{"x", 1, 1, 3}};
    g.ops = {SoftmaxXent{0, 0}};
    OpHarness ops(*backend_, g, 2);
    ops.set_value(0, {1e4f, -1e4f, 0, 1e6f, 1e6f, -3e38f});
    ops.set_labels({1, 0});
    ops.forward();
    ops.backward();
    EXPECT_NEAR(ops.stats().loss_sum, 20000 + std::log(2), 2e-3);  // a float's last place there
    EXPECT_EQ(ops.stats().correct, 1);
    const Floats expected = {0.5f, -0.5f, 0, -0.25f, 0.25f, 0};
    const Floats dx = ops.gradient(0);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(dx[i], expected[i], 1e-7);
}

// Seven classes; of equal logits the first is the better one. If there are five classes, every
// label is among the best five.
TEST_P(OpsOf, TopFiveCountsWhatIsBetterThanTheLabel) {
    const Floats rising = {1, 2, 3, 4, 5, 6, 7}, equal(7, 2), mixed = {3, 3, 9, 9, 9, 9, 3};
    const auto hits = [&](const Floats& logits, int label) {
        Graph g;
        g.classes = int(logits.size());
        g.values = {{"x", 1, 1, g.classes}};
        g.ops = {SoftmaxXent{0, 0}};
        OpHarness ops(*backend_, g, 1);
        ops.set_value(0, logits);
        ops.set_labels({label});
        ops.forward();
        return ops.stats().top5;
    };
    for (int label = 0; label < 7; ++label) {
        EXPECT_EQ(hits(rising, label), label >= 2) << label;
        EXPECT_EQ(hits(equal, label), label < 5) << label;
        EXPECT_EQ(hits(mixed, label), label != 1 && label != 6) << label;
    }
    for (int label = 0; label < 5; ++label) EXPECT_EQ(hits({5, 4, 3, 2, 1}, label), 1) << label;
    EXPECT_EQ(hits({NAN, NAN, NAN, NAN, NAN, 1, 0}, 5), 0) << "what is not a number is no prediction of the label";
}

TEST_P(OpsOf, NormKeepsAConstantChannelFinite) {
    Graph g;
    g.values = {{"x", 3, 3, 2}, {"y", 3, 3, 2}};
    for (float start : {1.0f, 0.5f, 0.0f, 1.0f})
        g.params.push_back({"p", {1, 1, 1, 2}, {Init::constant, start}, g.params.size() < 2, false});
    g.ops = {BatchNorm{0, 1, 0, 1, 2, 3, 1e-5f, 0.1f}};
    OpHarness ops(*backend_, g, 2);
    for (ParamId id = 0; id < 4; ++id) ops.set_param(id, Floats(2, g.params[id].init.a));
    ops.set_value(0, Floats(36, 12345.678f));
    ops.set_gradient(1, normals(36, 1));
    ops.forward();
    ops.backward();
    for (const float y : ops.value(1)) EXPECT_NEAR(y, 0.5f, 12345.678 * 316 * 1.2e-7);  // a x + b cancels
    for (const float var : ops.param(3)) EXPECT_FLOAT_EQ(var, 0.9f);
    for (const float dx : ops.gradient(0)) EXPECT_LT(std::abs(dx), 2e3);
}

TEST_P(OpsOf, BackendsAreSharedAndKeepNothingOfOtherTests) {
    EXPECT_EQ(&shared_backend(GetParam()), backend_);
    EXPECT_NE(&shared_backend(GetParam(), ConvBy::direct), backend_);
    const std::unique_ptr<Backend> fresh = make_test_backend(GetParam(), ConvBy::direct);
    Backend& shared = shared_backend(GetParam(), ConvBy::direct);
    const auto gradients = [](Backend& backend, const OpCase& c) {
        Pair pair(backend, c, c.setting);
        const ValueId y = output_of(c.op());
        pair.backend.set_gradient(y, normals(c.graph.values[y].batched(c.batch).count(), 300));
        pair.backend.forward();
        pair.backend.backward();
        std::vector<Floats> all = {pair.backend.value(y)};
        for (const ParamId id : c.trained()) all.push_back(pair.backend.param_gradient(id));
        for (const ValueId id : c.inputs()) all.push_back(pair.backend.gradient(id));
        return all;
    };
    for (const OpCase& c : op_cases())
        if (c.name == "conv3_stride1_pad1_21to26_batch2" || c.name == "norm_21_relu" ||
            c.name == "linear_735to3_batch5") {
            const std::vector<Floats> first = gradients(shared, c);
            EXPECT_EQ(gradients(*fresh, c), first) << c.name;
            for (const OpCase& other : op_cases())
                if (other.type() == DType::f32 && other.name.starts_with("linear")) gradients(shared, other);
            EXPECT_EQ(gradients(shared, c), first) << c.name;
        }
}

INSTANTIATE_TEST_SUITE_P(All, OpsOf, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
