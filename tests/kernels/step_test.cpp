// The kernels around the ops: reading a batch, casts between parameters and padded tensors, and
// kernels at the start and end of a step.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

constexpr int samples = 23;

/// A data set with generated pixels, and a batch of it.
struct Reading {
    int h, w, c, batch = 7;
    Augment augment{};
    bool permuted = true;
    std::vector<uint8_t> pixels{};
    std::vector<int32_t> labels{}, order{};
    Floats mean{}, stddev{}, scale{}, shift{};
    Counters counters{};

    Reading(int height, int width, int channels, Augment a) : h(height), w(width), c(channels), augment(a) {
        for (int i = 0; i < samples * h * w * c; ++i) pixels.push_back(uint8_t(i * 89 + i / 7));
        for (int i = 0; i < samples; ++i) {
            labels.push_back((i * 7 + 2) % 10);
            order.push_back((i * 5 + 3) % samples);
        }
        for (int k = 0; k < c; ++k) {
            mean.push_back(0.4f + 0.05f * float(k));
            stddev.push_back(0.2f + 0.02f * float(k));
            scale.push_back(1 / (255 * stddev.back()));
            shift.push_back(-mean.back() / stddev.back());
        }
        counters.step = 77;
        counters.epoch = 3;
        counters.offset = 9;
    }
    Gather gather(const Tensor& x, std::vector<int32_t>& y) {
        return {{pixels.data(), {samples, h, w, c}, DType::u8},
                {labels.data(), {samples, 1, 1, 1}, DType::i32},
                permuted ? order.data() : nullptr,
                &counters,
                x,
                {y.data(), {batch, 1, 1, 1}, DType::i32},
                4,
                mean,
                stddev,
                augment,
                9};
    }
};

TEST(KernelStep, GathersAsTheCpuBackend) {
    const auto cpu = make_test_backend("cpu");
    for (const auto& [h, w, c] : {std::tuple{7, 9, 3}, {5, 5, 1}, {1, 1, 10}, {6, 11, 8}, {9, 7, 5}})
        for (const Augment& augment : {Augment{}, Augment{4, false, true}, Augment{2, true, true}}) {
            if (augment.pad >= h && augment.reflect) continue;  // only one mirror image is promised
            for (const Layout& layout : layouts()) {
                SCOPED_TRACE(name_of(layout) + " " + std::to_string(h) + "x" + std::to_string(w) + "x" +
                             std::to_string(c));
                Reading r(h, w, c, augment);
                r.permuted = layout.shift == 0;
                const Shape shape{r.batch, h, w, c};
                Floats expected(shape.count());
                std::vector<int32_t> labels(size_t(r.batch)), got_labels(size_t(r.batch), -1);
                Tape tape;
                cpu->gather(r.gather({expected.data(), shape, DType::f32}, labels), tape);
                run_tape(*cpu, std::move(tape));
                const Floats got = in_every_order([&] {
                    const KernelTensor x(shape, layout);
                    kernels::gather(r.gather(x.tensor(), got_labels), r.scale.data(), r.shift.data(), {}, nullptr);
                    EXPECT_TRUE(x.padding_is_zero());
                    return std::vector<Floats>{x.get()};
                })[0];
                EXPECT_EQ(got_labels, labels);
                for (size_t i = 0; i < got.size();
                     ++i)  // values up to 4; a product and a sum may be rounded once or twice
                    ASSERT_NEAR(got[i], expected[i],
                                5e-7 + (layout.type == DType::f32 ? 0 : rounding(layout.type) * std::abs(expected[i])))
                        << i;
            }
        }
}

TEST(KernelStep, CastsPadAndCrop) {
    for (const Layout& layout : layouts())
        for (const auto& [rows, channels] : {std::pair{1, 1}, {21, 26}, {9 * 31, 3}, {5, 16}, {3, 300}}) {
            SCOPED_TRACE(name_of(layout) + " " + std::to_string(rows) + "x" + std::to_string(channels));
            const Floats values = normals(size_t(rows) * size_t(channels), 1);
            const int more = 3;  // rows of zeros at the end: output channels that are padding
            in_every_order([&] {
                const KernelTensor padded({rows + more, 1, 1, channels}, layout);
                kernels::pad(values.data(), rows, channels, padded.tensor(), nullptr);
                Floats expected = rounded(values, layout.type);
                Floats back(values.size(), NAN);
                kernels::crop(padded.tensor(), rows, channels, back.data(), nullptr);
                EXPECT_EQ(back, expected);
                expected.resize(size_t(rows + more) * size_t(channels));
                EXPECT_EQ(padded.get(), expected);
                EXPECT_TRUE(padded.padding_is_zero());
                return std::vector<Floats>{back};
            });
        }
    KernelTensor small({2, 1, 1, 3}, {});
    Floats dense(9);
    EXPECT_THROW(kernels::pad(dense.data(), 3, 3, small.tensor(), nullptr), std::logic_error);
    EXPECT_THROW(kernels::crop(small.tensor(), 2, 4, dense.data(), nullptr), std::logic_error);
}

TEST(KernelStep, AddsABiasFromOneTypeToAnother) {
    const Shape shape{5, 3, 1, 21};
    const Floats bias = normals(21, 2);
    for (const Layout& source : layouts())
        for (const Layout& target : layouts()) {
            SCOPED_TRACE(name_of(source) + " to " + name_of(target));
            const Floats values = rounded(normals(shape.count(), 1), source.type);
            const KernelTensor from(shape, source, values), to(shape, target);
            kernels::add_bias(from.tensor(), bias.data(), to.tensor(), nullptr);
            Floats expected = values;
            for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 21];
            EXPECT_EQ(to.get(), rounded(expected, target.type));
            EXPECT_TRUE(to.padding_is_zero());
        }
}

TEST(KernelStep, LossScalesItsGradient) {
    const Shape shape{5, 1, 1, 10};
    const std::vector<int32_t> labels = {3, 0, 9, 9, 1};
    const Layout layout{DType::f32, 8, 0};
    const KernelTensor x(shape, layout, normals(shape.count(), 1)), plain(shape, layout), scaled(shape, layout);
    const kernels::LossArgs loss{x.tensor(), 10, labels.data(), 0.2f};
    const float scale = 1024;
    kernels::loss_backward(loss, plain.tensor(), 5, nullptr, nullptr);
    kernels::loss_backward(loss, scaled.tensor(), 5, &scale, nullptr);
    for (size_t i = 0; i < shape.count(); ++i) EXPECT_EQ(scaled.get()[i], 1024 * plain.get()[i]);
    EXPECT_TRUE(scaled.padding_is_zero());
}

TEST(KernelStep, TheFirstOfEqualLogitsIsThePrediction) {
    Floats logits(4 * 70, -1.0f);
    // the first row has equal elements
    for (const int at : {70 + 5, 70 + 40, 140 + 64, 140 + 33, 210 + 69}) logits[at] = 2;
    const std::vector<int32_t> labels = {0, 5, 33, 69};
    in_every_order([&] {
        const KernelTensor x({4, 1, 1, 70}, {}, logits);
        std::vector<unsigned char> workspace(kernels::loss_workspace(4), 0xff);
        BatchStats stats;
        kernels::loss_forward({x.tensor(), 70, labels.data(), 0}, &stats, workspace.data(), nullptr);
        EXPECT_EQ(stats.correct, 4);
        return std::vector<Floats>{{stats.loss_sum}};
    });
}

TEST(KernelStep, LossOfNoSamplesIsZero) {
    BatchStats stats{.loss_sum = 7, .correct = 7, .top5 = 7, .stop = 1};
    kernels::loss_forward({{nullptr, {0, 1, 1, 10}, DType::f32}, 10, nullptr, 0}, &stats, nullptr, nullptr);
    EXPECT_EQ(stats.loss_sum, 0);
    EXPECT_EQ(stats.correct, 0);
    EXPECT_EQ(stats.top5, 0);
    EXPECT_EQ(stats.stop, 1) << "not its own";
}

TEST(KernelStep, RecordsWhatHappened) {
    std::vector<float> rates = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
    std::vector<StepRecord> ring(4);
    Counters counters;
    counters.step = 5;
    counters.offset = 100;
    kernels::StepTimes times;
    BatchStats stats{.loss_sum = 30, .correct = 12, .top5 = 14, .skipped = 1}, own;
    const std::vector<int> requests = {0, 1, 1};
    for (int asked = 0; asked < 3; ++asked) {  // one request at a time
        std::vector<int> one(3);
        one[asked] = 1;
        BatchStats of_one;
        kernels::request(one.data(), &of_one, nullptr, nullptr);
        EXPECT_EQ(of_one.stop, float(asked == 0));
        EXPECT_EQ(of_one.checkpoint, float(asked == 1));
        EXPECT_EQ(of_one.snapshot, float(asked == 2));
    }
    kernels::mark(&times.started, nullptr);  // a microsecond passes at every reading of the clock
    kernels::mark(&times.gathered, nullptr);
    kernels::mark(&times.wait_began, nullptr);
    kernels::mark(&times.wait_ended, nullptr);
    kernels::request(requests.data(), &stats, &own, nullptr);
    stats.correct = 15;  // sum over all ranks
    kernels::record({.stats = &stats,
                     .own = &own,
                     .learning_rates = rates.data(),
                     .ring = ring.data(),
                     .ring_size = 4,
                     .counters = &counters,
                     .batch = 13,
                     .global_batch = 16},
                    &times, nullptr);
    const StepRecord& r = ring[1];
    EXPECT_EQ(r.step, 6);
    EXPECT_EQ(r.loss, 30.0 / 16);
    EXPECT_EQ(r.accuracy, 15.0 / 16);
    EXPECT_EQ(r.top5_accuracy, 14.0 / 16);
    EXPECT_EQ(r.images, 16);
    EXPECT_EQ(r.own_images, 13);
    EXPECT_EQ(r.own.loss_sum, 30);
    EXPECT_EQ(r.own.correct, 12);
    EXPECT_EQ(r.own.top5, 14);
    EXPECT_EQ(r.learning_rate, double(0.6f));
    EXPECT_NEAR(r.step_seconds, 4e-6, 1e-12);
    EXPECT_NEAR(r.data_seconds, 1e-6, 1e-12);
    EXPECT_NEAR(r.comm_exposed_seconds, 1e-6, 1e-12);
    EXPECT_FALSE(r.stop);
    EXPECT_TRUE(r.checkpoint);
    EXPECT_TRUE(r.snapshot);
    EXPECT_TRUE(r.skipped);
    EXPECT_EQ(counters.step, 6);
    EXPECT_EQ(counters.offset, 116);
    for (const int other : {0, 2, 3}) EXPECT_EQ(ring[other].step, 0);
}

TEST(KernelStep, RecordsTheSumsOfItsLogicalRanks) {
    const std::vector<float> rates = {0.1f};
    StepRecord row;
    Counters counters;
    const kernels::StepTimes times;
    BatchStats stats{.stop = 7, .checkpoint = 7, .snapshot = 7};
    std::vector<BatchStats> own(3);
    for (int i = 0; i < 3; ++i) {
        stats.loss_sum = float(1 << i);
        stats.correct = float(i);
        kernels::request(nullptr, &stats, &own[i], nullptr);
        EXPECT_EQ(own[i].stop + own[i].checkpoint + own[i].snapshot, 0) << "nothing is asked";
    }
    for (const int count : {3, 2}) {
        counters.step = 0;
        kernels::record({.stats = &stats,
                         .own = own.data(),
                         .learning_rates = rates.data(),
                         .ring = &row,
                         .ring_size = 1,
                         .counters = &counters,
                         .batch = 5,
                         .global_batch = 16,
                         .own_count = count},
                        &times, nullptr);
        EXPECT_EQ(row.own.loss_sum, count == 3 ? 7 : 3);
        EXPECT_EQ(row.own.correct, count == 3 ? 3 : 1);
    }
}

TEST(KernelStep, MovesOnlyFiniteStatistics) {
    for (const int count : {1, 7, 700}) {
        const Floats from = normals(size_t(count), 3);
        Floats bad = from, to(size_t(count), 5), kept(size_t(count), 5);
        bad[count / 2] = NAN;
        bad[count - 1] = -INFINITY;
        const std::vector<kernels::Span> spans = {{from.data(), to.data(), count}, {bad.data(), kept.data(), count}};
        kernels::commit_finite(spans.data(), int(spans.size()), nullptr);
        EXPECT_EQ(to, from);
        for (int i = 0; i < count; ++i) EXPECT_EQ(kept[i], i == count / 2 || i == count - 1 ? 5 : from[i]) << i;
    }
}

TEST(KernelStep, AddsUpAnEvaluation) {
    const BatchStats stats{.loss_sum = 30, .correct = 12, .top5 = 14};
    EvalTotals totals{.loss_sum = 1.5, .correct = 2, .top5 = 5, .images = 3};
    Counters counters;
    for (int i = 0; i < 2; ++i) kernels::accumulate(&stats, &totals, 16, &counters, 32, nullptr);
    EXPECT_EQ(totals.loss_sum, 61.5);
    EXPECT_EQ(totals.correct, 26);
    EXPECT_EQ(totals.top5, 33);
    EXPECT_EQ(totals.images, 35);
    EXPECT_EQ(counters.offset, 64);
    EXPECT_EQ(counters.step, 0);
}

}  // namespace
}  // namespace convoy::test
