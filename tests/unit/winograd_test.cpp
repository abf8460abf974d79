// Winograd's convolutions compared with sums in double, over tiles, threads and shapes: full tiles
// and partial ones, few tiles and many, padded rows of tiles. Nothing is written behind the
// workspace.
#include "backend/cpu/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/conv_algorithms.h"

namespace convoy::cpu {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct Size {
    int n, h, w, in, out;
};

/// x, weights and dy, and the exact results of the convolution, by definition.
struct Exact {
    Floats x, weight, dy;
    Doubles y, dx, dweight;

    explicit Exact(const Size& s)
        : x(normal(s.n * s.h * s.w * s.in)),
          weight(normal(9 * s.in * s.out)),
          dy(normal(s.n * s.h * s.w * s.out)),
          y(dy.size()),
          dx(x.size()),
          dweight(weight.size()) {
        for (int image = 0; image < s.n; ++image)
            for (int i = 0; i < s.h; ++i)
                for (int j = 0; j < s.w; ++j)
                    for (int tap = 0; tap < 9; ++tap) add(s, image, i, j, tap);
    }

private:
    static Floats normal(int count) {
        std::mt19937 random(static_cast<unsigned>(count));
        std::normal_distribution<float> draw;
        Floats values(static_cast<size_t>(count));
        for (float& v : values) v = draw(random);
        return values;
    }
    void add(const Size& s, int image, int i, int j, int tap) {
        const int row = i + tap / 3 - 1, column = j + tap % 3 - 1;
        if (row < 0 || row >= s.h || column < 0 || column >= s.w) return;
        const size_t of_x = size_t((image * s.h + row) * s.w + column) * s.in;
        const size_t of_y = size_t((image * s.h + i) * s.w + j) * s.out;
        for (int o = 0; o < s.out; ++o)
            for (int c = 0; c < s.in; ++c) {
                const size_t at = size_t(o * 9 + tap) * s.in + c;
                y[of_y + o] += double(x[of_x + c]) * weight[at];
                dx[of_x + c] += double(dy[of_y + o]) * weight[at];
                dweight[at] += double(dy[of_y + o]) * x[of_x + c];
            }
    }
};

/// Returns the root mean square of the difference, relative to that of the exact values.
double error(const Floats& got, const Doubles& exact, double times = 1) {
    double difference = 0, whole = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
        difference += std::pow(got[i] - times * exact[i], 2);
        whole += std::pow(times * exact[i], 2);
    }
    return std::sqrt(difference / whole);
}

/// A workspace that is not initialised, followed by a page that must not be written.
class Workspace {
public:
    explicit Workspace(const Winograd& w)
        : bytes_((w.workspace_bytes() + 63) / 64 * 64),
          space_(static_cast<uint8_t*>(std::aligned_alloc(64, bytes_ + page)), std::free) {
        std::fill_n(space_.get(), bytes_ + page, nothing);
    }
    void* get() const { return space_.get(); }
    bool was_kept_to() const {
        return std::all_of(space_.get() + bytes_, space_.get() + bytes_ + page, [](uint8_t b) { return b == nothing; });
    }

private:
    static constexpr size_t page = 4096;
    static constexpr uint8_t nothing = 0xff;  // NaN as a float
    size_t bytes_;
    std::unique_ptr<uint8_t, void (*)(void*)> space_;
};

/// Returns the factor of the tolerance for sums of `channels` channels over those of 150: errors
/// grow with the root of the number of terms.
double more_for(int channels) { return std::sqrt(std::max(1.0, channels / 150.0)); }

class WinogradTiles : public testing::TestWithParam<Size> {
protected:
    void SetUp() override {
        if (!capabilities().avx512) GTEST_SKIP() << "Winograd is compiled by GCC, for AVX-512";
    }
};

TEST_P(WinogradTiles, AreNearSumsInDouble) {
    const Size s = GetParam();
    const Exact exact(s);
    // rounding weights to bf16 costs 1.6e-3: tests/peers/winograd_error.py
    std::map<int, Floats> y_of_one, dx_of_one;  // results of one thread, by tile
    for (const auto& [tile, most] : {std::pair{4, 1.6e-3 / 1000}, {7, 1.6e-3 / 100}, {8, 1.6e-3 / 40}})
        for (const int threads : {1, 2, 3}) {
            SCOPED_TRACE("tiles of " + std::to_string(tile) + ", threads " + std::to_string(threads));
            const Winograd w{s.n, s.h, s.w, s.in, s.out, threads, tile};
            const Workspace space(w);
            Floats y(exact.y.size(), NAN), dx(exact.dx.size(), NAN), dweight(exact.dweight.size(), NAN);
            w.forward(exact.x.data(), exact.weight.data(), y.data(), space.get());
            EXPECT_LT(error(y, exact.y), most * more_for(s.in));
            w.data_gradient(exact.dy.data(), exact.weight.data(), dx.data(), false, space.get());
            EXPECT_LT(error(dx, exact.dx), most * more_for(s.out));
            EXPECT_EQ(y, y_of_one.emplace(tile, y).first->second) << "depends on the number of threads";
            EXPECT_EQ(dx, dx_of_one.emplace(tile, dx).first->second) << "depends on the number of threads";
            w.data_gradient(exact.dy.data(), exact.weight.data(), dx.data(), true, space.get());
            EXPECT_LT(error(dx, exact.dx, 2), most * more_for(s.out)) << "added to what was there";
            w.weight_gradient(exact.x.data(), exact.dy.data(), dweight.data(), space.get());
            EXPECT_LT(error(dweight, exact.dweight), 3 * most) << "a sum over up to 8,320 pixels";
            EXPECT_TRUE(space.was_kept_to());
        }
}

// A slab of tiles takes 16 MiB, a gradient 9 MiB, and there is a panel, for any batch.
TEST(Winograd, AThreadsMemoryIsBounded) {
    for (const int images : {100, 10000})
        EXPECT_LT(Winograd({images, 14, 14, 512, 512, 16, 7}).workspace_bytes(), size_t(16 * 28) << 20);
}

INSTANTIATE_TEST_SUITE_P(All, WinogradTiles,
                         testing::Values(Size{3, 7, 7, 64, 32}, Size{2, 15, 15, 40, 48}, Size{2, 9, 12, 33, 19},
                                         Size{130, 8, 8, 17, 16}, Size{120, 3, 4, 16, 33}, Size{9, 28, 31, 16, 20},
                                         Size{2, 5, 4, 150, 131}, Size{100, 8, 8, 150, 131}, Size{90, 4, 4, 512, 16},
                                         Size{2, 4, 4, 16, 512}, Size{2, 5, 5, 500, 17}),
                         [](const auto& test) {
                             const Size& s = test.param;
                             return "n" + std::to_string(s.n) + "_" + std::to_string(s.h) + "x" + std::to_string(s.w) +
                                    "_" + std::to_string(s.in) + "_to_" + std::to_string(s.out);
                         });

}  // namespace
}  // namespace convoy::cpu
