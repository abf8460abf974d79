// Colour jitter against torchvision's, as tests/golden/make_jitter.py wrote it: pixel by pixel, as
// GPUs compute it, and a whole image at a time, as CPUs do.
#include <gtest/gtest.h>

#include "backend/cpu/jitter.h"
#include "tests/golden/golden_file.h"
#include "tests/ops/op_harness.h"

namespace convoy::test {
namespace {

const std::string path = "tests/golden/jitter.h5";

/// One image, and what torchvision makes of it.
struct Picture {
    Floats pixels;                             // [n, 3]
    Doubles factors, orders, changed, errors;  // [cases, 4] twice, [cases, n, 3], [cases]

    Picture(const GoldenFile& file, int n) {
        const std::string suffix = "_" + std::to_string(n);
        for (const double v : file.read("image" + suffix).values) pixels.push_back(float(v));
        factors = file.read("factors" + suffix).values;
        orders = file.read("orders" + suffix).values;
        changed = file.read("changed" + suffix).values;
        errors = file.read("errors" + suffix).values;
    }
    Jitter jitter(size_t n) const {
        const double *f = &factors[4 * n], *order = &orders[4 * n];
        Jitter j;
        j.brightness = float(f[0]);
        j.contrast = float(f[1]);
        j.saturation = float(f[2]);
        j.hue = float(f[3]);
        for (int k = 0; k < 4; ++k) j.order[k] = Adjust(order[k]);
        return j;
    }
    /// Four times as far as torchvision's float32 strays, and 1e-6 of white.
    void compare(const Floats& got, size_t n) const {
        for (size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], changed[n * got.size() + i], 4 * errors[n] + 255e-6) << "case " << n << " at " << i;
    }
};

std::vector<Picture> pictures() {
    const GoldenFile file(path);
    std::vector<Picture> all;
    for (int n = 0; n < 3; ++n) all.emplace_back(file, n);
    EXPECT_EQ(all[0].errors.size() + all[1].errors.size() + all[2].errors.size(), 2u * 19 + 24);
    return all;
}

TEST(Jitter, OfAPixelIsTorchvisions) {
    for (const Picture& p : pictures())
        for (size_t n = 0; n < p.errors.size(); ++n) {
            Jitter j = p.jitter(n);
            const size_t count = p.pixels.size() / 3;
            const auto colour = [&](size_t i) {
                return Colour{p.pixels[3 * i], p.pixels[3 * i + 1], p.pixels[3 * i + 2]};
            };
            double sum = 0;
            for (size_t i = 0; i < count; ++i) sum += double(grey(before_contrast(j, colour(i))));
            j.mean = float(sum / double(count));
            Floats got;
            for (size_t i = 0; i < count; ++i) {
                const Colour c = jittered(j, colour(i));
                got.insert(got.end(), {c.of(0), c.of(1), c.of(2)});
            }
            p.compare(got, n);
        }
}

TEST(Jitter, OfAnImageIsTorchvisions) {
    for (const Picture& p : pictures())
        for (size_t n = 0; n < p.errors.size(); ++n) {
            Floats got = p.pixels;
            cpu::jitter_image(p.jitter(n), got.data(), int(got.size() / 3));
            p.compare(got, n);
        }
}

}  // namespace
}  // namespace convoy::test
