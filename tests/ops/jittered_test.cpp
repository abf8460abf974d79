// Jittered images on every device, for each way of reading and mixing them. They are compared with
// the same images read plainly, whose colours then change by formulas written here in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/jitter.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/op_reference.h"

namespace convoy::test {
namespace {

constexpr int channels = 3, samples = 17, global_batch = 7;
constexpr int64_t epoch = 2, offset = 6;
constexpr uint64_t seed = 9;

using Rgb = std::array<double, 3>;  // from 0 to 1
using Picture = std::vector<Rgb>;

double grey_of(const Rgb& c) { return 0.2989 * c[0] + 0.587 * c[1] + 0.114 * c[2]; }

/// Returns share * c + (1 - share) * other, clamped to [0, 1].
Rgb blended(Rgb c, double other, double share) {
    for (double& v : c) v = std::clamp(share * v + (1 - share) * other, 0.0, 1.0);
    return c;
}

/// Turns the hue, through hue, saturation and value, sector by sector.
Rgb turned(const Rgb& c, double turn) {
    const double v = *std::max_element(c.begin(), c.end()), least = *std::min_element(c.begin(), c.end());
    if (v == least) return c;
    const double s = (v - least) / v;
    double h = 0;  // turns
    if (v == c[0])
        h = (c[1] - c[2]) / (v - least) / 6;
    else if (v == c[1])
        h = (2 + (c[2] - c[0]) / (v - least)) / 6;
    else
        h = (4 + (c[0] - c[1]) / (v - least)) / 6;
    h += turn + 1;
    h -= std::floor(h);
    const double f = 6 * h - std::floor(6 * h), p = v * (1 - s), q = v * (1 - s * f), t = v * (1 - s * (1 - f));
    switch (int(6 * h)) {
        case 0: return {v, t, p};
        case 1: return {q, v, p};
        case 2: return {p, v, t};
        case 3: return {p, q, v};
        case 4: return {t, p, v};
        default: return {v, p, q};
    }
}

/// Applies `what`, one of the four adjustments, to the whole image.
void change(Picture& image, const Jitter& j, Adjust what) {
    double mean = 0;
    for (const Rgb& c : image) mean += grey_of(c) / double(image.size());
    for (Rgb& c : image) switch (what) {
            case Adjust::brightness: c = blended(c, 0, double(j.brightness)); break;
            case Adjust::contrast: c = blended(c, mean, double(j.contrast)); break;
            case Adjust::saturation: c = blended(c, grey_of(c), double(j.saturation)); break;
            case Adjust::hue: c = turned(c, double(j.hue)); break;
        }
}

struct Reading {
    Augment augment{};
    bool ragged = false;
    int side = 12, first = 0, batch = global_batch;
    DType output = DType::f32;
    int stored = channels;
    std::vector<float> mean{0.4f, 0.5f, 0.6f}, stddev{0.2f, 0.25f, 0.3f};
};

/// Generated images: of 12 x 12 pixels, or ragged. Every fifth is dark; others also have pure
/// colours.
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
            for (int i = 0; i < h * w * channels; ++i) {
                const int v = (n * 89 + i * i * 37 + i / 7) % 320 - 32;
                pixels.push_back(uint8_t(std::clamp(n % 5 == 0 ? v / 8 : v, 0, 255)));
            }
        }
    }
    int sample(int position) const { return order[offset + position % global_batch]; }
};

struct Batch {
    Floats x;  // without padding channels
    std::vector<int32_t> labels;
    bool operator==(const Batch&) const = default;
};

class JitteredOn : public testing::TestWithParam<std::string> {
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
        g.mean = r.mean;
        g.stddev = r.stddev;
        g.augment = r.augment;
        g.seed = seed;
        g.global_batch = global_batch;
        g.mixed = {static_cast<int32_t*>(partners.get()), static_cast<float*>(shares.get())};
        Tape tape;
        backend_->gather(g, tape);
        run_tape(*backend_, std::move(tape));
        return {get(*backend_, g.x), download<int32_t>(*backend_, y.get(), n)};
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

    /// Stages the rank's images, and the partner of the last one if they are mixed.
    Batch staged(const Reading& r, const Images& images) {
        const std::unique_ptr<Feed> feed = backend_->feed(r.batch + 1, images.pixels.size(), 1);
        const HostBatch host = feed->claim(images.pixels.size());
        std::copy(images.pixels.begin(), images.pixels.end(), host.images);
        for (int i = 0; i < r.batch + (r.augment.mixes() ? 1 : 0); ++i) {
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

    /// Returns the global batch, read without jitter, mixing and normalisation, and then jittered.
    std::vector<Picture> pictures(Reading r, const Images& images) {
        const Augment jitter = r.augment;
        Augment& a = r.augment;
        a.brightness = a.contrast = a.saturation = a.hue = a.mixup = a.cutmix = 0;
        r.mean = {0, 0, 0};
        r.stddev = {1, 1, 1};
        const Floats plain = resident(r, images).x;
        std::vector<Picture> all;
        for (int n = 0; n < r.batch; ++n) {
            Picture& picture = all.emplace_back();
            for (int i = 0; i < r.side * r.side; ++i) {
                const float* pixel = &plain[(n * r.side * r.side + i) * channels];
                picture.push_back({double(pixel[0]), double(pixel[1]), double(pixel[2])});
            }
            const Jitter j = draw_jitter(jitter, seed, epoch, uint32_t(images.sample(n)));
            for (const Adjust what : j.order) change(picture, j, what);
        }
        return all;
    }

    /// Returns the global batch by formulas; f32.
    Doubles expected(const Reading& r, const Images& images) {
        const std::vector<Picture> jittered = pictures(r, images);
        Doubles all;
        for (int n = 0; n < r.batch; ++n) {
            const Picture &own = jittered[n], &partner = jittered[(n + 1) % global_batch];
            Mix mix{1, 0, 0, 0, 0, 1};
            if (r.augment.mixes()) mix = draw_mix(r.augment, r.side, r.side, seed, epoch, uint32_t(images.sample(n)));
            for (int i = 0; i < r.side * r.side; ++i) {
                const double share = double(mix.own(i / r.side, i % r.side));
                for (size_t c = 0; c < channels; ++c) {
                    const double v = share * own[i][c] + (1 - share) * partner[i][c];
                    all.push_back((v - double(r.mean[c])) / double(r.stddev[c]));
                }
            }
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
        const Doubles wanted = expected(r, images);
        for (const auto& [type, stored] : outputs) {
            SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(stored));
            r.output = type;
            r.stored = stored;
            const Batch got = resident(r, images);
            for (int n = 0; n < r.batch; ++n) EXPECT_EQ(got.labels[n], images.labels[images.sample(n)]);
            ASSERT_EQ(got.x.size(), wanted.size());
            // Float has an error of 3e-8 of white after each of about ten operations; factors up to
            // 3 and deviations of a fifth magnify it. bf16 has eight bits.
            for (size_t i = 0; i < got.x.size(); ++i)
                ASSERT_NEAR(got.x[i], wanted[i], 1e-5 + (type == DType::f32 ? 0 : std::abs(wanted[i]) / 250)) << i;
            EXPECT_TRUE(staged(r, images) == got);
        }
    }
};

TEST_P(JitteredOn, ShiftedImages) {
    check({.augment = {.pad = 2, .flip = true, .brightness = 0.4f, .contrast = 0.6f, .saturation = 2, .hue = 0.5f}});
    check({.augment = {.pad = 3, .reflect = true, .brightness = 0.8f, .contrast = 2, .saturation = 0.4f, .hue = 0.1f}});
}

TEST_P(JitteredOn, OneChangeAlone) {
    check({.augment = {.pad = 2, .brightness = 1}});
    check({.augment = {.pad = 2, .contrast = 1}});
    check({.augment = {.pad = 2, .saturation = 1}});
    check({.augment = {.pad = 2, .hue = 0.5f}});
}

TEST_P(JitteredOn, RandomWindows) {
    for (const bool ragged : {false, true})
        for (const int side : {5, 18, 36}) {
            const Augment windows{.flip = true,
                                  .crop = Crop::random_resized,
                                  .brightness = 0.4f,
                                  .contrast = 0.4f,
                                  .saturation = 0.4f,
                                  .hue = 0.2f};
            check({.augment = windows, .ragged = ragged, .side = side});
        }
}

TEST_P(JitteredOn, CentresOfTheResizedImage) {
    check({.augment = {.crop = Crop::centre, .short_side = 14, .contrast = 1, .saturation = 1}, .ragged = true});
}

// Two images that are mixed have separate jitter.
TEST_P(JitteredOn, ImagesThatAreThenMixed) {
    Augment a{.pad = 2, .flip = true, .mixup = 0.4f, .cutmix = 1};
    a.brightness = a.contrast = a.saturation = 0.7f;
    a.hue = 0.3f;
    check({.augment = a});
    a.pad = 0;
    a.crop = Crop::random_resized;
    check({.augment = a, .ragged = true});
    a.contrast = 0;
    check({.augment = a});
}

// Each rank reads its share.
TEST_P(JitteredOn, AnImageIsTheSameInAnyShareOfABatch) {
    for (const bool mixed : {false, true})
        for (const bool ragged : {false, true}) {
            const Images images(ragged);
            Augment a{.flip = true, .crop = ragged ? Crop::random_resized : Crop::shifted};
            a.brightness = a.contrast = a.saturation = a.hue = 0.5f;
            a.mixup = mixed ? 1 : 0;
            const Batch whole = resident({.augment = a, .ragged = ragged}, images);
            Batch parts;
            for (const auto& [first, count] : {std::pair{0, 3}, {3, 1}, {4, 3}}) {
                const Batch part = resident({.augment = a, .ragged = ragged, .first = first, .batch = count}, images);
                parts.x.insert(parts.x.end(), part.x.begin(), part.x.end());
                parts.labels.insert(parts.labels.end(), part.labels.begin(), part.labels.end());
            }
            EXPECT_TRUE(parts == whole);
        }
}

INSTANTIATE_TEST_SUITE_P(All, JitteredOn, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
