// Random windows of images of any size, resized, mirrored and normalised on every device. They are
// compared with the formula in double: each pixel is the mean of pixels weighted by a triangle.
#include <gtest/gtest.h>

#include <cmath>

#include "base/bf16.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/op_reference.h"

namespace convoy::test {
namespace {

constexpr int channels = 3, samples = 9;

struct Images {
    std::vector<uint8_t> pixels;
    std::vector<ImagePlace> places;
    std::vector<int32_t> labels;

    explicit Images(bool of_many_sizes) {
        for (int n = 0; n < samples; ++n) {
            const int height = of_many_sizes ? 5 + 7 * n : 21, width = of_many_sizes ? 60 - 5 * n : 17;
            places.push_back({int64_t(pixels.size()), height, width});
            labels.push_back(n * 3 % 10);
            for (int i = 0; i < height * width * channels; ++i) pixels.push_back(uint8_t((n * 89 + i * i * 37) % 256));
        }
    }
    double pixel(int n, int row, int column, int c) const {
        const ImagePlace& p = places[n];
        return pixels[size_t(p.offset) + size_t((row * p.width + column) * channels + c)];
    }
};

/// Returns the weights of pixels [0, in) for pixel i of `out`.
Doubles weights(int i, int out, int in) {
    const double scale = double(in) / out, reach = std::max(scale, 1.0), centre = (i + 0.5) * scale;
    Doubles all(size_t(in), 0.0);
    double total = 0;
    for (int k = 0; k < in; ++k) total += all[k] = std::max(0.0, 1 - std::abs(k + 0.5 - centre) / reach);
    for (double& weight : all) weight /= total;
    return all;
}

struct Reading {
    Augment augment{.flip = true, .crop = Crop::random_resized};
    int side = 12, batch = samples;
    int64_t epoch = 2, first = 0;
    uint64_t seed = 4;
    bool of_many_sizes = true, reversed = false;

    int sample(int i) const { return int(reversed ? samples - 1 - first - i : first + i); }
    float mean(int c) const { return 0.4f + 0.1f * float(c); }
    float stddev(int c) const { return 0.2f + 0.05f * float(c); }
};

Doubles expected(const Images& images, const Reading& r) {
    Doubles all;
    for (int n = 0; n < r.batch; ++n) {
        const int sample = r.sample(n);
        const ImagePlace& p = images.places[sample];
        const Resampling w =
            draw_resampling(r.augment, p.height, p.width, r.side, r.side, r.seed, uint32_t(r.epoch), uint32_t(sample));
        for (int i = 0; i < r.side; ++i)
            for (int j = 0; j < r.side; ++j) {
                const Doubles rows = weights(i, r.side, w.height),
                              columns = weights(w.mirror ? r.side - 1 - j : j, r.side, w.width);
                for (int c = 0; c < channels; ++c) {
                    double sum = 0;
                    for (int k = 0; k < w.height; ++k)
                        for (int l = 0; l < w.width; ++l)
                            sum += rows[k] * columns[l] * images.pixel(sample, w.top + k, w.left + l, c);
                    all.push_back((sum / 255 - double(r.mean(c))) / double(r.stddev(c)));
                }
            }
    }
    return all;
}

struct Batch {
    Doubles x;  // [n, side, side, stored]
    std::vector<int32_t> y;
};

/// Reads a batch into `stored` channels of `type`; those beyond the images' channels are padding.
Batch read(Backend& backend, const Images& images, const Reading& r, int stored = channels, DType type = DType::f32) {
    Gather g{};
    std::vector<int32_t> order;
    for (int i = 0; i < samples; ++i) order.push_back(samples - 1 - i);
    Counters counters;
    counters.epoch = r.epoch;
    const Buffer pixels = upload(backend, images.pixels), places = upload(backend, images.places),
                 labels = upload(backend, images.labels), device_order = upload(backend, order),
                 device_counters = upload(backend, std::vector<Counters>{counters}),
                 y = backend.allocate(size_t(r.batch) * sizeof(int32_t));
    const size_t elements = size_t(r.batch * r.side * r.side * stored);
    const Buffer x = upload(backend, Floats(elements, NAN));
    g.images = {pixels.get(), {samples, images.places[0].height, images.places[0].width, channels}, DType::u8};
    if (r.of_many_sizes) g.places = static_cast<const ImagePlace*>(places.get());
    g.labels = {labels.get(), {samples, 1, 1, 1}, DType::i32};
    if (r.reversed) g.order = static_cast<const int32_t*>(device_order.get());
    g.counters = static_cast<const Counters*>(device_counters.get());
    g.x = {x.get(), {r.batch, r.side, r.side, stored}, type, stored - channels};
    g.y = {y.get(), {r.batch, 1, 1, 1}, DType::i32};
    g.first = r.first;
    for (int c = 0; c < channels; ++c) {
        g.mean.push_back(r.mean(c));
        g.stddev.push_back(r.stddev(c));
    }
    g.augment = r.augment;
    g.seed = r.seed;
    Tape tape;
    backend.gather(g, tape);
    run_tape(backend, std::move(tape));
    Doubles values;
    if (type == DType::f32)
        for (const float v : download<float>(backend, x.get(), elements)) values.push_back(double(v));
    else
        for (const bf16 v : download<bf16>(backend, x.get(), elements)) values.push_back(double(to_float(v)));
    return {values, download<int32_t>(backend, y.get(), size_t(r.batch))};
}

class ResampleOn : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    void check(const Reading& r) {
        const Images images(r.of_many_sizes);
        const Batch got = read(*backend_, images, r);
        const Doubles wanted = expected(images, r);
        ASSERT_EQ(got.x.size(), wanted.size());
        // Positions of pixels below 64 have an error of 4e-6 in float. Neighbours differ by at most
        // 255, and the smallest deviation is a fifth of that.
        for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got.x[i], wanted[i], 4e-5) << "element " << i;
        for (int n = 0; n < r.batch; ++n) EXPECT_EQ(got.y[n], images.labels[r.sample(n)]);
    }
};

TEST_P(ResampleOn, RandomWindowsOfImagesOfManySizes) {
    for (const bool reversed : {false, true})
        for (const int side : {1, 12, 30}) {
            Reading r;
            r.reversed = reversed;
            r.side = side;
            check(r);
        }
}

TEST_P(ResampleOn, RandomWindowsOfImagesOfOneSize) {
    Reading r;
    r.of_many_sizes = false;
    check(r);
    r.augment.flip = false;
    r.augment.scale_low = r.augment.scale_high = 0.3f;
    r.batch = 3;
    r.first = 4;
    check(r);
}

TEST_P(ResampleOn, CentresOfTheResizedImage) {
    Reading r;
    r.augment = {.fixed = true, .mirror = true, .crop = Crop::centre, .short_side = 14};
    const Images images(true);
    const Batch got = read(*backend_, images, r);
    r.augment.mirror = false;
    const Batch straight = read(*backend_, images, r);
    for (int row = 0; row < samples * r.side; ++row)
        for (int j = 0; j < r.side; ++j)
            for (int c = 0; c < channels; ++c)
                ASSERT_EQ(got.x[(row * r.side + j) * channels + c],
                          straight.x[(row * r.side + r.side - 1 - j) * channels + c]);
}

/// A sample's window and mirror image are a function of seed, epoch and sample alone.
TEST_P(ResampleOn, ASampleIsTheSameWhereverItLies) {
    const Images images(true);
    Reading all;
    all.reversed = true;
    Reading part = all;
    part.batch = 2;
    part.first = 3;
    const size_t image = size_t(all.side * all.side * channels);
    const Doubles whole = read(*backend_, images, all).x;
    const Doubles wanted(whole.begin() + int64_t(3 * image), whole.begin() + int64_t(5 * image));
    EXPECT_EQ(read(*backend_, images, part).x, wanted);
    part.epoch = 3;
    EXPECT_NE(read(*backend_, images, part).x, wanted);
    part.epoch = 2;
    part.seed = 5;
    EXPECT_NE(read(*backend_, images, part).x, wanted);
}

TEST_P(ResampleOn, PaddingChannelsAreZeroInLowPrecision) {
    if (GetParam() == "cpu") GTEST_SKIP() << "CPUs do not pad channels";
    const Images images(true);
    const Reading r;
    constexpr int stored = 8;
    const Doubles got = read(*backend_, images, r, stored, DType::bf16).x, wanted = expected(images, r);
    for (size_t pixel = 0; pixel < got.size() / stored; ++pixel)
        for (size_t c = 0; c < stored; ++c) {
            const double value = c < channels ? wanted[pixel * channels + c] : 0;
            ASSERT_NEAR(got[pixel * stored + c], value, std::abs(value) / 250 + 4e-5)
                << "pixel " << pixel << " channel " << c;
        }
}

INSTANTIATE_TEST_SUITE_P(All, ResampleOn, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
