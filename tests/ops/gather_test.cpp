// Reading a batch on every device, compared with a scalar loop: crop with both kinds of padding,
// flip, normalisation, permutation, offset.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_harness.h"

namespace convoy::test {
namespace {

constexpr int height = 7, width = 9, samples = 23;

struct Batch {
    Floats images;
    std::vector<int32_t> labels;
};

/// Settings of a read; the data set has generated pixels.
struct Reading {
    int channels = 3;
    Augment augment{};
    std::vector<int32_t> order{};  // empty: identity
    int64_t epoch = 0, offset = 0, first = 0;
    int batch = 5;
    uint64_t seed = 9;
    DType type = DType::u8;

    uint8_t pixel(int64_t n, int i, int j, int c) const {
        return uint8_t(1 + (n * 89 + i * 37 + j * 11 + c * 101) % 255);
    }
    int32_t label(int64_t n) const { return int32_t((n * 7 + 2) % 10); }
    float mean(int c) const { return 0.4f + 0.1f * float(c); }
    float stddev(int c) const { return 0.2f + 0.05f * float(c); }
    /// Returns the normalised value. In f32 data values are pixels / 256: exact, and different from
    /// pixels / 255.
    double normalised(int v, int c) const {
        return (v / (type == DType::u8 ? 255.0 : 256.0) - double(mean(c))) / double(stddev(c));
    }
    int64_t sample(int i) const {
        const int64_t at = offset + first + i;
        return order.empty() ? at : order[at];
    }
};

Batch read(Backend& backend, const Reading& r) {
    std::vector<uint8_t> pixels;
    std::vector<int32_t> labels;
    Gather g{};
    for (int64_t n = 0; n < samples; ++n) {
        labels.push_back(r.label(n));
        for (int i = 0; i < height; ++i)
            for (int j = 0; j < width; ++j)
                for (int c = 0; c < r.channels; ++c) pixels.push_back(r.pixel(n, i, j, c));
    }
    for (int c = 0; c < r.channels; ++c) {
        g.mean.push_back(r.mean(c));
        g.stddev.push_back(r.stddev(c));
    }
    Counters counters;
    counters.step = 77;  // must not matter
    counters.epoch = r.epoch;
    counters.offset = r.offset;
    Floats values;
    for (const uint8_t pixel : pixels) values.push_back(float(pixel) / 256);
    const size_t elements = size_t(r.batch * height * width * r.channels);
    const Buffer images = r.type == DType::u8 ? upload(backend, pixels) : upload(backend, values),
                 all_labels = upload(backend, labels), order = upload(backend, r.order),
                 device_counters = upload(backend, std::vector<Counters>{counters}),
                 x = upload(backend, Floats(elements, NAN)), y = backend.allocate(size_t(r.batch) * sizeof(int32_t));
    g.images = {images.get(), {samples, height, width, r.channels}, r.type};
    g.labels = {all_labels.get(), {samples, 1, 1, 1}, DType::i32};
    g.order = r.order.empty() ? nullptr : static_cast<const int32_t*>(order.get());
    g.counters = static_cast<const Counters*>(device_counters.get());
    g.x = {x.get(), {r.batch, height, width, r.channels}, DType::f32};
    g.y = {y.get(), {r.batch, 1, 1, 1}, DType::i32};
    g.first = r.first;
    g.augment = r.augment;
    g.seed = r.seed;
    Tape tape;
    backend.gather(g, tape);
    run_tape(backend, std::move(tape));
    return {download<float>(backend, x.get(), elements), download<int32_t>(backend, y.get(), size_t(r.batch))};
}

class GatherOn : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    /// Compares with a scalar loop; `draw` of a sample gives the crop and the flip.
    template <class Draw> void check(const Reading& r, Draw draw) {
        const Batch got = read(*backend_, r);
        size_t e = 0;
        for (int n = 0; n < r.batch; ++n) {
            const int64_t sample = r.sample(n);
            const AugmentDraw d = draw(sample);
            EXPECT_EQ(got.labels[n], r.label(sample));
            for (int i = 0; i < height; ++i)
                for (int j = 0; j < width; ++j)
                    for (int c = 0; c < r.channels; ++c, ++e) {
                        int row = i + d.dy, column = (d.mirror ? width - 1 - j : j) + d.dx;
                        if (r.augment.reflect) {
                            row = row < 0 ? -row : row > height - 1 ? 2 * (height - 1) - row : row;
                            column = column < 0 ? -column : column > width - 1 ? 2 * (width - 1) - column : column;
                        }
                        const bool black = row < 0 || row >= height || column < 0 || column >= width;
                        // Pixels lie within 5 deviations of the mean; float has 6e-8 of that.
                        ASSERT_NEAR(got.images[e], r.normalised(black ? 0 : r.pixel(sample, row, column, c), c), 2e-6)
                            << "sample " << sample << " row " << i << " column " << j << " channel " << c;
                    }
        }
    }
};

AugmentDraw nothing(int64_t) { return {0, 0, false}; }

TEST_P(GatherOn, Normalises) {
    for (const int channels : {1, 3, 5}) {
        Reading r;
        r.channels = channels;
        check(r, nothing);
    }
}

// f32 data are not divided by 255, and are at the same places.
TEST_P(GatherOn, TakesNumbersAsTheyAre) {
    for (const int channels : {1, 3, 5}) {
        Reading r;
        r.type = DType::f32;
        r.channels = channels;
        check(r, nothing);
        r.offset = 3;
        r.first = 2;
        for (int i = 0; i < samples; ++i) r.order.push_back((i * 5 + 3) % samples);
        check(r, nothing);
    }
}

TEST_P(GatherOn, FollowsOrderOffsetAndFirst) {
    Reading r;
    r.offset = 10;
    r.first = 6;
    check(r, nothing);
    for (int i = 0; i < samples; ++i) r.order.push_back((i * 5 + 3) % samples);
    check(r, nothing);
    r.epoch = 3;  // without augmentation an epoch does not matter
    check(r, nothing);
}

TEST_P(GatherOn, CropsAndFlips) {
    for (const bool reflect : {false, true})
        for (const bool flip : {false, true})
            for (const int pad : {0, 1, 4}) {
                Reading r;
                r.augment = {pad, reflect, flip};
                r.batch = samples;
                r.epoch = 2;
                check(r, [&](int64_t sample) { return draw_augment(r.augment, r.seed, 2, uint32_t(sample)); });
            }
}

TEST_P(GatherOn, ShowsAFixedView) {
    for (const int shift : {-1, 0, 1})
        for (const bool mirror : {false, true}) {
            Reading r;
            r.augment.reflect = r.augment.fixed = true;
            r.augment.dy = r.augment.dx = shift;
            r.augment.mirror = mirror;
            check(r, [&](int64_t) { return AugmentDraw{shift, shift, mirror}; });
        }
}

TEST(Gather, AlternatingFlipsTurnOverEveryEpoch) {
    const Augment random{2, true, true, false}, alternate{2, true, true, true};
    constexpr uint32_t images = 10'000;
    int mirrored = 0, turned_at_random = 0, crops_moved = 0;
    for (uint32_t sample = 0; sample < images; ++sample) {
        const bool first = draw_augment(alternate, 5, 0, sample).mirror;
        mirrored += first;
        for (uint32_t epoch = 1; epoch < 6; ++epoch)
            ASSERT_EQ(draw_augment(alternate, 5, epoch, sample).mirror, first != (epoch % 2 == 1));
        turned_at_random += draw_augment(random, 5, 0, sample).mirror != draw_augment(random, 5, 1, sample).mirror;
        const AugmentDraw a = draw_augment(alternate, 5, 0, sample), b = draw_augment(alternate, 5, 1, sample);
        crops_moved += a.dy != b.dy || a.dx != b.dx;
    }
    EXPECT_NEAR(mirrored, images / 2, 250) << "five deviations";
    EXPECT_NEAR(turned_at_random, images / 2, 250);
    EXPECT_NEAR(crops_moved, images * 24 / 25, 100) << "crops are drawn anew";
}

// An augmented sample is a function of seed, epoch and sample. So neither the batch's order nor its
// split changes it.
TEST_P(GatherOn, AugmentsASampleTheSameWhereverItLies) {
    Reading r;
    r.augment = {4, true, true};
    for (int i = 0; i < samples; ++i) r.order.push_back(samples - 1 - i);
    const Batch all = read(*backend_, r);
    Reading part = r;
    part.batch = 2;
    part.offset = 1;
    part.first = 2;
    const size_t image = size_t(height * width * r.channels);
    const Floats expected(all.images.begin() + 3 * image, all.images.begin() + 5 * image);
    EXPECT_EQ(read(*backend_, part).images, expected);
    part.epoch = 1;
    EXPECT_NE(read(*backend_, part).images, expected);
    part.epoch = 0;
    part.seed = 10;
    EXPECT_NE(read(*backend_, part).images, expected);
}

INSTANTIATE_TEST_SUITE_P(All, GatherOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
