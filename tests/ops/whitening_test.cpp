// Whitening filters: the eigenvalue solver on matrices with known eigenvalues, and patches that
// become white.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/whitening.h"
#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

TEST(Whitening, EigenvaluesOfAKnownMatrix) {
    constexpr int n = 12;
    // 2 on the diagonal, -1 beside it: the eigenvalues are 2 - 2 cos(k pi / 13), the vectors sines.
    std::vector<double> chain(n * n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) chain[i * n + j] = i == j ? 2 : std::abs(i - j) == 1 ? -1 : 0;
    const Eigen e = symmetric_eigen(chain, n);
    for (int k = 0; k < n; ++k) {
        const double angle = double(n - k) * M_PI / (n + 1);
        EXPECT_NEAR(e.values[k], 2 - 2 * std::cos(angle), 1e-13);
        double dot = 0;
        for (int i = 0; i < n; ++i)
            dot += e.vectors[k * n + i] * std::sin(double(i + 1) * angle) * std::sqrt(2.0 / (n + 1));
        EXPECT_NEAR(std::abs(dot), 1, 1e-13) << k;
    }
    // The same vectors with eigenvalues from 10 to 10^-10; float could resolve half of them.
    std::vector<double> steep(n * n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; ++k)
                steep[i * n + j] += std::pow(10, 1 - k) * e.vectors[k * n + i] * e.vectors[k * n + j];
    const Eigen s = symmetric_eigen(steep, n);
    for (int k = 0; k < n; ++k) EXPECT_NEAR(s.values[k], std::pow(10, 1 - k), 1e-13);
    EXPECT_EQ(symmetric_eigen({3}, 1).values, std::vector<double>{3});
}

// The sign of an eigenvector is arbitrary. It is fixed, so that filters have the same bits on every
// machine.
TEST(Whitening, TheLargestPartOfAVectorIsPositive) {
    for (const int n : {2, 5, 12}) {
        const Floats drawn = normals(size_t(n * n), uint64_t(n));
        std::vector<double> a(size_t(n * n));
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) a[i * n + j] = double(drawn[i * n + j]) + drawn[j * n + i];
        const Eigen e = symmetric_eigen(a, n);
        for (int k = 0; k < n; ++k) {
            const auto begin = e.vectors.begin() + k * n;
            const auto [least, most] = std::minmax_element(begin, begin + n);
            EXPECT_GT(*most, -*least) << n << ", " << k;
        }
    }
    EXPECT_EQ(symmetric_eigen({2, 0, 0, 1}, 2).vectors, (std::vector<double>{1, 0, 0, 1}));
}

TEST(Whitening, FiltersMakePatchesWhite) {
    constexpr int images = 40, side = 9, channels = 3, kernel = 2, n = kernel * kernel * channels;
    std::vector<uint8_t> pixels(images * side * side * channels);
    for (size_t i = 0; i < pixels.size(); ++i) {  // neighbours and channels are alike, as in photographs
        const Floats noise = normals(1, 1000 + i);
        const size_t pixel = i / channels;
        pixels[i] = uint8_t(std::clamp(
            128 + 60 * std::sin(double(pixel % side) * 0.7 + double(pixel / (side * side))) + 5 * double(noise[0]), 0.0,
            255.0));
    }
    const PatchSource source{pixels.data(), images, side, side, channels, {0.4f, 0.5f, 0.6f}, {0.2f, 0.25f, 0.3f}};
    constexpr double epsilon = 5e-4;
    const Floats w = whitening_filters(source, kernel, epsilon);
    ASSERT_EQ(w.size(), size_t(2 * n * n));
    for (size_t i = 0; i < w.size() / 2; ++i) EXPECT_EQ(w[i + w.size() / 2], -w[i]);
    std::vector<double> moments(n * n);
    int64_t patches = 0;
    for (int image = 0; image < images; ++image)
        for (int i = 0; i < side - 1; ++i)
            for (int j = 0; j < side - 1; ++j, ++patches) {
                double y[n] = {};
                for (int f = 0; f < n; ++f)
                    for (int t = 0; t < n; ++t) {
                        const int c = t % channels, column = j + t / channels % kernel, row = i + t / channels / kernel;
                        const double v = pixels[((image * side + row) * side + column) * channels + c] / 255.0;
                        y[f] += double(w[f * n + t]) * (v - double(source.mean[c])) / double(source.stddev[c]);
                    }
                for (int a = 0; a < n; ++a)
                    for (int b = 0; b < n; ++b) moments[a * n + b] += y[a] * y[b];
            }
    double before = 1;
    for (int a = 0; a < n; ++a)
        for (int b = 0; b < n; ++b) {
            const double m = moments[a * n + b] / double(patches);
            if (a != b) {
                EXPECT_NEAR(m, 0, 1e-4) << a << " " << b;
                continue;
            }
            // A filter's output has the second moment value / (value + epsilon), and 1 / |filter|^2
            // is value + epsilon.
            double length = 0;
            for (int t = 0; t < n; ++t) length += double(w[a * n + t]) * double(w[a * n + t]);
            EXPECT_NEAR(m, 1 - epsilon * length, 1e-4) << a;
            EXPECT_LE(m, before + 1e-4) << "eigenvalues fall";
            before = m;
        }
}

}  // namespace
}  // namespace convoy::test
