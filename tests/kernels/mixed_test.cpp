// Batches of mixed images, whole and resized, jittered or not: the kernels against the CPU backend.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

constexpr int samples = 11, batch = 7, height = 9, width = 8, channels = 3;

/// Generated images, and the last seven of them as a batch.
struct MixedBatch {
    std::vector<uint8_t> pixels{};
    std::vector<int32_t> all_labels{}, order{}, labels = std::vector<int32_t>(batch, -1), partners = labels;
    Floats shares = Floats(batch, -1), mean{0.4f, 0.5f, 0.6f}, stddev{0.2f, 0.25f, 0.3f}, scale{}, shift{};
    Augment augment;
    Counters counters{};

    explicit MixedBatch(const Augment& a) : augment(a) {
        for (int i = 0; i < samples * height * width * channels; ++i) pixels.push_back(uint8_t(i * 89 + i / 7));
        for (int i = 0; i < samples; ++i) {
            all_labels.push_back((i * 7 + 2) % 10);
            order.push_back((i * 5 + 3) % samples);
        }
        for (int k = 0; k < channels; ++k) {
            scale.push_back(1 / (255 * stddev[k]));
            shift.push_back(-mean[k] / stddev[k]);
        }
        counters.epoch = 3;
        counters.offset = samples - batch;
    }
    Gather gather(const Tensor& x) {
        Gather g{};
        g.images = {pixels.data(), {samples, height, width, channels}, DType::u8};
        g.labels = {all_labels.data(), {samples, 1, 1, 1}, DType::i32};
        g.order = order.data();
        g.counters = &counters;
        g.x = x;
        g.y = {labels.data(), {batch, 1, 1, 1}, DType::i32};
        g.mean = mean;
        g.stddev = stddev;
        g.augment = augment;
        g.seed = 9;
        g.global_batch = batch;
        g.mixed = {partners.data(), shares.data()};
        return g;
    }
};

// Each image is mixed with the next, and the last with the first; colours change before that.
TEST(KernelMixed, BatchesAreThoseOfTheCpuBackend) {
    const auto cpu = make_test_backend("cpu");
    const Shape shape{batch, height, width, channels};
    for (const bool resized : {false, true})
        for (const bool jittered : {false, true}) {
            SCOPED_TRACE(std::string(resized ? "resized " : "") + (jittered ? "jittered" : ""));
            Augment augment{.flip = true};
            augment.mixup = augment.cutmix = 1;
            if (resized) augment.crop = Crop::random_resized;
            if (jittered) augment.brightness = augment.hue = 0.4f;
            MixedBatch wanted(augment), got(augment);
            Floats expected(shape.count());
            Tape tape;
            cpu->gather(wanted.gather({expected.data(), shape, DType::f32}), tape);
            run_tape(*cpu, std::move(tape));
            const Floats values = in_every_order([&] {
                const KernelTensor x(shape, {});
                std::vector<Mix> mixes(batch);
                std::vector<Jitter> jitters(batch + 1);
                const Gather g = got.gather(x.tensor());
                kernels::draw_mixes(g, mixes.data(), nullptr);
                const kernels::BatchDraws drawn{mixes.data(), jittered ? jitters.data() : nullptr};
                (resized ? kernels::resample : kernels::gather)(g, got.scale.data(), got.shift.data(), drawn, nullptr);
                EXPECT_EQ(got.labels, wanted.labels);
                return std::vector<Floats>{x.get()};
            })[0];
            EXPECT_EQ(got.partners, wanted.partners);
            EXPECT_EQ(got.shares, wanted.shares);
            // values up to 3; both sum in f32, in different orders
            for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 2e-5) << i;
        }
}

}  // namespace
}  // namespace convoy::test
