// A batch that the host staged, compared bit for bit with the same samples from the whole split. It
// is packed in another order, and has only those rows of each image that its crop shows.
// gather_test.cpp and resample_test.cpp compare the whole split's batches with formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/ops/op_harness.h"

namespace convoy::test {
namespace {

constexpr int channels = 3, samples = 23, batch = 11;
constexpr uint8_t poison = 251;  // larger than all pixels; in f32 a large negative number
constexpr int64_t epoch = 2;

struct Split {
    DType type;
    std::vector<uint8_t> bytes{};  // u8 or f32
    std::vector<ImagePlace> places{};
    std::vector<int32_t> labels{}, order{};

    /// Makes a split whose first image is [height, width]; if it is `ragged`, the others have other
    /// sizes.
    Split(DType type_of_pixels, bool ragged, int height, int width) : type(type_of_pixels) {
        for (int n = 0; n < samples; ++n) {
            const int h = ragged ? height + 3 * n : height, w = ragged ? width + 2 * (samples - n) : width;
            places.push_back({int64_t(bytes.size()), h, w});
            labels.push_back((n * 7 + 2) % 10);
            order.push_back((n * 5 + 3) % samples);
            for (int i = 0; i < h * w * channels; ++i) add((n * 89 + i * i * 37 + i / 7) % 250);
        }
    }
    size_t row_bytes(int sample) const { return size_t(places[sample].width) * channels * size_of(type); }
    int sample(int position) const { return order[position + 4]; }

private:
    void add(int pixel) {
        const float value = float(pixel) / 256;
        uint8_t raw[4] = {uint8_t(pixel)};
        if (type == DType::f32) std::memcpy(raw, &value, sizeof value);
        bytes.insert(bytes.end(), raw, raw + size_of(type));
    }
};

struct Rows {
    int first, end;
};

/// Returns the rows of an image that a batch of `side` rows and columns shows.
Rows shown(const Augment& a, uint64_t seed, const ImagePlace& p, int side, int sample) {
    Rows r{p.height, 0};
    const auto add = [&](int first, int end) { r = {std::min(r.first, first), std::max(r.end, end)}; };
    if (a.crop == Crop::shifted) {
        const AugmentDraw draw = draw_augment(a, seed, epoch, uint32_t(sample));
        for (int i = 0; i < p.height; ++i)
            if (const int row = source_index(a, i, draw.dy, p.height); row >= 0) add(row, row + 1);
        return r;
    }
    const Resampling what = draw_resampling(a, p.height, p.width, side, side, seed, epoch, uint32_t(sample));
    for (int i = 0; i < side; ++i) {
        const Taps taps = taps_of(what.y + i, what.rows, what.height);
        add(what.top + taps.first, what.top + taps.first + taps.count);
    }
    return r;
}

/// Settings of a read, and of its output.
struct Reading {
    Augment augment{};
    DType type = DType::u8;
    bool ragged = false;
    int height = 12, width = 12, side = 12;
    DType output = DType::f32;
    int stored = channels;
};

class StagedOn : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    struct Batch {
        std::vector<uint8_t> x;
        std::vector<int32_t> y;
        bool operator==(const Batch&) const = default;
    };

    /// Runs `g`, whose outputs and normalisation are not set yet.
    Batch run(const Reading& r, Gather g) {
        const Shape shape{batch, r.side, r.side, r.stored};
        const size_t bytes = shape.count() * size_of(r.output);
        const Counters counters{.step = 77, .epoch = epoch, .offset = 3};
        const Buffer x = upload(*backend_, std::vector<uint8_t>(bytes, 0xff)),
                     y = upload(*backend_, std::vector<int32_t>(batch, -1)),
                     device_counters = upload(*backend_, std::vector<Counters>{counters});
        g.x = {x.get(), shape, r.output, r.stored - channels};
        g.y = {y.get(), {batch, 1, 1, 1}, DType::i32};
        g.counters = static_cast<const Counters*>(device_counters.get());
        g.mean = {0.4f, 0.5f, 0.6f};
        g.stddev = {0.2f, 0.25f, 0.3f};
        g.augment = r.augment;
        g.seed = 9;
        Tape tape;
        backend_->gather(g, tape);
        run_tape(*backend_, std::move(tape));
        return {download<uint8_t>(*backend_, x.get(), bytes), download<int32_t>(*backend_, y.get(), batch)};
    }

    Batch whole(const Reading& r, const Split& split) {
        const Buffer images = upload(*backend_, split.bytes), places = upload(*backend_, split.places),
                     labels = upload(*backend_, split.labels), order = upload(*backend_, split.order);
        Gather g{};
        g.images = {images.get(), {samples, r.height, r.width, channels}, r.type};
        g.labels = {labels.get(), {samples, 1, 1, 1}, DType::i32};
        g.order = static_cast<const int32_t*>(order.get());
        if (r.ragged) g.places = static_cast<const ImagePlace*>(places.get());
        g.first = 1;
        return run(r, g);
    }

    /// Packs every third image first, then the others. Gaps between them, and rows that are not
    /// shown, hold poison.
    std::vector<uint8_t> pack(const Reading& r, const Split& split, ImagePlace* places) {
        std::vector<uint8_t> packed(size_t(8), poison);
        for (const int rest : {2, 0, 1})
            for (int i = rest; i < batch; i += 3) {
                const int sample = split.sample(i);
                const ImagePlace& p = split.places[sample];
                const Rows rows = shown(r.augment, 9, p, r.side, sample);
                const auto row = int64_t(split.row_bytes(sample));
                places[i] = {int64_t(packed.size()) - rows.first * row, p.height, p.width};
                const auto from = split.bytes.begin() + p.offset;
                packed.insert(packed.end(), from + rows.first * row, from + rows.end * row);
                packed.insert(packed.end(), 12, poison);
            }
        return packed;
    }

    Batch staged(const Reading& r, const Split& split) {
        std::vector<ImagePlace> places(batch);
        const std::vector<uint8_t> packed = pack(r, split, places.data());
        negative_ = std::any_of(places.begin(), places.end(), [](const ImagePlace& p) { return p.offset < 0; });
        const std::unique_ptr<Feed> feed = backend_->feed(batch + 2, packed.size(), 1);
        const HostBatch host = feed->claim(packed.size());
        std::copy(packed.begin(), packed.end(), host.images);
        std::copy(places.begin(), places.end(), host.places);
        for (int i = 0; i < batch; ++i) {
            host.samples[i] = split.sample(i);
            host.labels[i] = split.labels[split.sample(i)];
        }
        feed->begin_step();
        feed->take();
        Gather g{};
        g.images = {nullptr, {samples, r.height, r.width, channels}, r.type};
        g.labels = {nullptr, {samples, 1, 1, 1}, DType::i32};
        g.first = 1'000'000;  // must not matter
        g.staged = feed->batch();
        return run(r, g);
    }

    /// Checks every output type.
    void check(Reading r) {
        const Split split(r.type, r.ragged, r.height, r.width);
        std::vector<std::pair<DType, int>> outputs = {{DType::f32, channels}};
        if (GetParam() == "cuda")
            outputs.insert(outputs.end(), {{DType::f32, 4}, {DType::bf16, 8}, {DType::f16, 8}, {DType::f16, channels}});
        else if (has_bf16())
            outputs.emplace_back(DType::bf16, channels);
        for (const auto& [type, stored] : outputs) {
            SCOPED_TRACE(std::string(name_of(r.type)) + " to " + name_of(type) + " " + std::to_string(stored));
            r.output = type;
            r.stored = stored;
            const Batch expected = whole(r, split);
            EXPECT_TRUE(staged(r, split) == expected);
            for (int i = 0; i < batch; ++i) EXPECT_EQ(expected.y[i], split.labels[split.sample(i)]);
        }
    }

    bool negative_ = false;  // true if the last staged batch had a negative offset
};

TEST_P(StagedOn, ShiftedImages) {
    for (const DType type : {DType::u8, DType::f32})
        for (const bool reflect : {false, true})
            for (const int pad : {0, 1, 4}) {
                SCOPED_TRACE("pad " + std::to_string(pad));
                check({.augment = {.pad = pad, .reflect = reflect, .flip = pad != 1}, .type = type});
            }
}

TEST_P(StagedOn, FixedViews) {
    for (const DType type : {DType::u8, DType::f32})
        check({.augment = {.reflect = true, .fixed = true, .dy = 5, .dx = -2, .mirror = true}, .type = type});
    check({.augment = {.fixed = true, .dy = 5}});
    EXPECT_TRUE(negative_) << "the first rows are not there";
}

TEST_P(StagedOn, RandomWindows) {
    const Augment augment{.flip = true, .crop = Crop::random_resized};
    for (const bool ragged : {false, true})
        for (const int side : {5, 12, 30}) {
            SCOPED_TRACE((ragged ? "ragged " : "") + std::to_string(side));
            check({.augment = augment, .ragged = ragged, .height = 21, .width = 17, .side = side});
        }
    EXPECT_TRUE(negative_);
}

TEST_P(StagedOn, CentresOfTheResizedImage) {
    const Augment augment{.fixed = true, .mirror = true, .crop = Crop::centre, .short_side = 14};
    check({.augment = augment, .ragged = true, .height = 60, .width = 9});
    EXPECT_TRUE(negative_);
    check({.augment = augment, .height = 30, .width = 20});
}

TEST_P(StagedOn, AlternatingFlipsAreOfTheSample) { check({.augment = {.pad = 2, .flip = true, .alternate = true}}); }

INSTANTIATE_TEST_SUITE_P(All, StagedOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
