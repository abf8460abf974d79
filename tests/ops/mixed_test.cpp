// Mixed images on every device. Pixels are compared with the formula applied to the same images
// read without mixing. The loss of two labels is compared with its formula in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/ops/op_harness.h"
#include "tests/ops/op_reference.h"

namespace convoy::test {
namespace {

constexpr int channels = 3, samples = 17, global_batch = 7;
constexpr int64_t epoch = 2, offset = 6;
constexpr uint64_t seed = 9;

struct Reading {
    Augment augment{};
    bool ragged = false;
    int side = 12, first = 0, batch = global_batch;
    DType output = DType::f32;
    int stored = channels;
};

/// Generated images: of 12 x 12 pixels, or ragged.
struct Images {
    std::vector<uint8_t> pixels{};
    std::vector<ImagePlace> places{};
    std::vector<int32_t> labels{}, order{};

    explicit Images(bool ragged) {
        for (int n = 0; n < samples; ++n) {
            const int h = ragged ? 9 + 2 * n : 12, w = ragged ? 50 - 2 * n : 12;
            places.push_back({int64_t(pixels.size()), h, w});
            labels.push_back((n * 7 + 2) % 10);
            order.push_back((n * 5 + 3) % samples);
            for (int i = 0; i < h * w * channels; ++i) pixels.push_back(uint8_t(n * 89 + i * i * 37 + i / 7));
        }
    }
    int sample(int position) const { return order[offset + position % global_batch]; }
};

struct Batch {
    Floats x;  // without padding channels
    std::vector<int32_t> labels, partners;
    Floats shares;
    bool operator==(const Batch&) const = default;
};

class MixedOn : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    /// Runs `g`, in which only the source of images is set.
    Batch run(const Reading& r, Gather g) {
        const Shape shape{r.batch, r.side, r.side, r.stored};
        const auto n = size_t(r.batch);
        const Counters now{.step = 77, .epoch = epoch, .offset = offset};
        const Buffer x = upload(*backend_, std::vector<uint8_t>(shape.count() * size_of(r.output), 0xff)),
                     y = upload(*backend_, std::vector<int32_t>(n, -1)),
                     partners = upload(*backend_, std::vector<int32_t>(n, -1)),
                     shares = upload(*backend_, Floats(n, -1)),
                     counters = upload(*backend_, std::vector<Counters>{now});
        g.x = {x.get(), shape, r.output, r.stored - channels};
        g.y = {y.get(), {r.batch, 1, 1, 1}, DType::i32};
        g.counters = static_cast<const Counters*>(counters.get());
        g.mean = {0.4f, 0.5f, 0.6f};
        g.stddev = {0.2f, 0.25f, 0.3f};
        g.augment = r.augment;
        g.seed = seed;
        g.global_batch = global_batch;
        g.mixed = {static_cast<int32_t*>(partners.get()), static_cast<float*>(shares.get())};
        Tape tape;
        backend_->gather(g, tape);
        run_tape(*backend_, std::move(tape));
        return {get(*backend_, g.x), download<int32_t>(*backend_, y.get(), n),
                download<int32_t>(*backend_, partners.get(), n), download<float>(*backend_, shares.get(), n)};
    }

    Batch resident(const Reading& r, const Images& images) {
        const Buffer pixels = upload(*backend_, images.pixels), places = upload(*backend_, images.places),
                     labels = upload(*backend_, images.labels), order = upload(*backend_, images.order);
        Gather g{};
        g.images = {pixels.get(), {samples, 12, 12, channels}, DType::u8};
        if (r.ragged) g.places = static_cast<const ImagePlace*>(places.get());
        g.labels = {labels.get(), {samples, 1, 1, 1}, DType::i32};
        g.order = static_cast<const int32_t*>(order.get());
        g.first = r.first;
        return run(r, g);
    }

    /// Stages the rank's images, and the partner of the last one.
    Batch staged(const Reading& r, const Images& images) {
        const std::unique_ptr<Feed> feed = backend_->feed(r.batch + 1, images.pixels.size(), 1);
        const HostBatch host = feed->claim(images.pixels.size());
        std::copy(images.pixels.begin(), images.pixels.end(), host.images);
        for (int i = 0; i <= r.batch; ++i) {
            host.samples[i] = images.sample(r.first + i);
            host.labels[i] = images.labels[host.samples[i]];
            host.places[i] = images.places[host.samples[i]];
        }
        feed->begin_step();
        feed->take();
        Gather g{};
        g.images = {nullptr, {samples, 12, 12, channels}, DType::u8};
        g.labels = {nullptr, {samples, 1, 1, 1}, DType::i32};
        g.first = 1'000'000;  // must not matter
        g.staged = feed->batch();
        return run(r, g);
    }

    /// Returns the batch of all ranks, by the formula from images that are not mixed; f32.
    Batch expected(Reading r, const Images& images) {
        r.output = DType::f32;
        r.stored = channels;
        const Augment augment = r.augment;
        r.augment.mixup = r.augment.cutmix = 0;
        Batch all = resident(r, images);
        const Floats plain = all.x;
        const size_t image = plain.size() / size_t(r.batch);
        for (int n = 0; n < r.batch; ++n) {
            const size_t own = size_t(n) * image, partner = size_t((n + 1) % global_batch) * image;
            const Mix mix = draw_mix(augment, r.side, r.side, seed, epoch, uint32_t(images.sample(n)));
            for (size_t k = 0; k < image; ++k) {
                const int pixel = int(k) / channels;
                const double share = mix.own(pixel / r.side, pixel % r.side);
                all.x[own + k] = float(share * plain[own + k] + (1 - share) * plain[partner + k]);
            }
            all.partners[n] = images.labels[images.sample(n + 1)];
            all.shares[n] = mix.share;
        }
        return all;
    }

    /// Checks every output type.
    void check(Reading r) {
        const Images images(r.ragged);
        std::vector<std::pair<DType, int>> outputs = {{DType::f32, channels}};
        if (GetParam() == "cuda")
            outputs.insert(outputs.end(), {{DType::f32, 4}, {DType::bf16, 8}, {DType::f16, 8}});
        else if (has_bf16())
            outputs.emplace_back(DType::bf16, channels);
        const Batch wanted = expected(r, images);
        for (const auto& [type, stored] : outputs) {
            SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(stored));
            r.output = type;
            r.stored = stored;
            const Batch got = resident(r, images);
            EXPECT_EQ(got.labels, wanted.labels);
            EXPECT_EQ(got.partners, wanted.partners);
            ASSERT_EQ(got.x.size(), wanted.x.size());
            // a share's last place may depend on the libm; values up to 4, in bf16 with eight bits
            for (size_t i = 0; i < got.shares.size(); ++i) EXPECT_NEAR(got.shares[i], wanted.shares[i], 1e-7);
            for (size_t i = 0; i < got.x.size(); ++i)
                ASSERT_NEAR(got.x[i], wanted.x[i], 2e-6 + (type == DType::f32 ? 0 : std::abs(wanted.x[i]) / 250)) << i;
            EXPECT_TRUE(staged(r, images) == got);
        }
    }
};

TEST_P(MixedOn, ShiftedImages) {
    check({.augment = {.pad = 2, .flip = true, .mixup = 1}});
    check({.augment = {.pad = 2, .flip = true, .cutmix = 1}});
    check({.augment = {.pad = 2, .reflect = true, .mixup = 0.4f, .cutmix = 1}});
}

TEST_P(MixedOn, RandomWindows) {
    for (const bool ragged : {false, true})
        for (const int side : {5, 18}) {
            const Augment windows{.flip = true, .crop = Crop::random_resized, .mixup = 0.4f, .cutmix = 1};
            check({.augment = windows, .ragged = ragged, .side = side});
        }
}

TEST_P(MixedOn, CentresOfTheResizedImage) {
    check({.augment = {.crop = Crop::centre, .short_side = 14, .mixup = 1}, .ragged = true});
}

// Each rank reads its share; the partner of the last image of all ranks is the first one.
TEST_P(MixedOn, AnImageIsTheSameInAnyShareOfABatch) {
    for (const bool ragged : {false, true}) {
        const Images images(ragged);
        const Augment augment{.flip = true, .crop = Crop::random_resized, .mixup = 1, .cutmix = 1};
        const Batch whole = resident({.augment = augment, .ragged = ragged}, images);
        Batch parts;
        for (const auto& [first, count] : {std::pair{0, 3}, {3, 1}, {4, 3}}) {
            const Reading r{.augment = augment, .ragged = ragged, .first = first, .batch = count};
            const Batch part = resident(r, images);
            EXPECT_TRUE(staged(r, images) == part);
            parts.x.insert(parts.x.end(), part.x.begin(), part.x.end());
            parts.labels.insert(parts.labels.end(), part.labels.begin(), part.labels.end());
            parts.partners.insert(parts.partners.end(), part.partners.begin(), part.partners.end());
            parts.shares.insert(parts.shares.end(), part.shares.begin(), part.shares.end());
        }
        EXPECT_TRUE(parts == whole);
    }
}

/// Rows of seven logits with two labels each.
struct TwoLabels {
    static constexpr int classes = 7;
    const std::vector<int32_t> own = {1, 5, 4, 4, 1, 2, 4}, partner = {4, 2, 3, 6, 1, 5, 3};
    const Floats share = {1, 0.3f, 0, 0.75f, 0.5f, 0.25f, 0.5f};
    const int rows = int(own.size());
    const Floats logits = [this] {
        Floats all;
        for (int i = 0; i < rows * classes; ++i) all.push_back(float((i * 33 + i * i * 11) % 29) / 8 - 1.5f);
        return all;
    }();

    double target(int row, int j, double smoothing) const {
        const auto r = size_t(row);
        const double mixed = double(share[r]) * (j == own[r]) + (1 - double(share[r])) * (j == partner[r]);
        return (1 - smoothing) * mixed + smoothing / classes;
    }
    /// Returns the logarithms of the softmax.
    Doubles log_softmax(int row) const {
        Doubles all;
        double sum = 0;
        for (int j = 0; j < classes; ++j) {
            all.push_back(double(logits[row * classes + j]));
            sum += std::exp(all.back());
        }
        for (double& v : all) v -= std::log(sum);
        return all;
    }
    /// Counts logits above that of the label with the larger share; a row has no equal logits.
    /// Every other rule (the own label, the smaller share, the partner's label if shares are equal)
    /// gives other counts.
    int better(int row) const {
        const auto r = size_t(row);
        const auto begin = logits.begin() + row * classes;
        const float counts = begin[share[r] >= 0.5f ? own[r] : partner[r]];
        return int(std::count_if(begin, begin + classes, [&](float v) { return v > counts; }));
    }
};

TEST_P(MixedOn, TheLossIsTheSharesOfTwoLosses) {
    const TwoLabels two;
    for (const float smoothing : {0.0f, 0.1f}) {
        Graph g;
        g.classes = TwoLabels::classes;
        g.values = {{"x", 1, 1, g.classes}};
        g.ops = {SoftmaxXent{0, smoothing}};
        OpHarness ops(*backend_, g, two.rows);
        ops.set_value(0, two.logits);
        ops.set_labels(two.own);
        ops.set_mixed(two.partner, two.share);
        ops.forward();
        ops.backward();
        double loss = 0;
        int correct = 0, top5 = 0;
        const Floats dx = ops.gradient(0);
        for (int row = 0; row < two.rows; ++row) {
            const Doubles log_softmax = two.log_softmax(row);
            for (int j = 0; j < g.classes; ++j) {
                const double target = two.target(row, j, double(smoothing));
                loss -= target * log_softmax[j];
                ASSERT_NEAR(dx[row * g.classes + j], (std::exp(log_softmax[j]) - target) / two.rows,
                            1e-8)  // a float of at most 1/7
                    << "row " << row << " class " << j;
            }
            correct += two.better(row) == 0;
            top5 += two.better(row) < 5;
        }
        EXPECT_NEAR(ops.stats().loss_sum, loss, 2e-6);  // a float near 20
        EXPECT_EQ(ops.stats().correct, correct);
        EXPECT_EQ(ops.stats().top5, top5);
        EXPECT_TRUE(correct > 0 && correct < two.rows && top5 < two.rows) << "both happen";
    }
}

INSTANTIATE_TEST_SUITE_P(All, MixedOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
