#include "model/whitening.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace convoy {
namespace {

/// Rotates rows and columns p and q of a [n][n] so that a[p][q] becomes zero. Rotates rows p and q
/// of v in the same way.
void rotate(std::vector<double>& a, std::vector<double>& v, int n, int p, int q) {
    const auto at = [n](std::vector<double>& m, int i, int j) -> double& {
        return m[size_t(i) * size_t(n) + size_t(j)];
    };
    if (at(a, p, q) == 0) return;
    const double theta = (at(a, q, q) - at(a, p, p)) / (2 * at(a, p, q));
    const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1)),
                 c = 1 / std::sqrt(t * t + 1), s = t * c;
    const auto turn = [c, s](double& x, double& y) {
        const double x0 = x;
        x = c * x0 - s * y;
        y = s * x0 + c * y;
    };
    for (int i = 0; i < n; ++i) turn(at(a, i, p), at(a, i, q));
    for (int i = 0; i < n; ++i) turn(at(a, p, i), at(a, q, i));
    for (int i = 0; i < n; ++i) turn(at(v, p, i), at(v, q, i));
}

/// Returns the sum of the squares off the diagonal.
double off_diagonal(const std::vector<double>& a, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) sum += i == j ? 0 : a[i * n + j] * a[i * n + j];
    return sum;
}

}  // namespace

Eigen symmetric_eigen(std::vector<double> a, int n) {
    std::vector<double> v(a.size());
    for (int i = 0; i < n; ++i) v[i * n + i] = 1;
    const double whole = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
    constexpr int most_sweeps = 100;  // a dozen usually suffice, because convergence is quadratic
    for (int sweep = 0; sweep < most_sweeps && off_diagonal(a, n) > 1e-30 * whole; ++sweep)
        for (int p = 0; p < n; ++p)
            for (int q = p + 1; q < n; ++q) rotate(a, v, n, p, q);

    std::vector<int> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return a[i * n + i] > a[j * n + j]; });
    Eigen e;
    for (const int i : order) {
        e.values.push_back(a[i * n + i]);
        const auto begin = v.begin() + i * n, end = begin + n;
        const double top = *std::max_element(begin, end, [](double x, double y) { return std::abs(x) < std::abs(y); });
        for (auto x = begin; x != end; ++x) e.vectors.push_back(top < 0 ? -*x : *x);
    }
    return e;
}

std::vector<float> whitening_filters(const PatchSource& s, int kernel, double epsilon) {
    const int n = kernel * kernel * s.c;
    std::vector<double> moments(size_t(n) * size_t(n)), patch(static_cast<size_t>(n));
    int64_t patches = 0;
    for (int64_t image = 0; image < s.count; ++image)
        for (int i = 0; i + kernel <= s.h; ++i)
            for (int j = 0; j + kernel <= s.w; ++j, ++patches) {
                size_t k = 0;
                for (int a = 0; a < kernel; ++a)
                    for (int b = 0; b < kernel; ++b)
                        for (int c = 0; c < s.c; ++c) {
                            const uint8_t pixel = s.images[((image * s.h + i + a) * s.w + j + b) * s.c + c];
                            patch[k++] = (double(pixel) / 255 - double(s.mean[c])) / double(s.stddev[c]);
                        }
                for (size_t x = 0; x < size_t(n); ++x)
                    for (size_t y = 0; y <= x; ++y) moments[x * size_t(n) + y] += patch[x] * patch[y];
            }
    for (size_t x = 0; x < size_t(n); ++x)
        for (size_t y = 0; y <= x; ++y)
            moments[y * size_t(n) + x] = moments[x * size_t(n) + y] /= double(std::max<int64_t>(1, patches));

    const Eigen e = symmetric_eigen(std::move(moments), n);
    std::vector<float> filters(2 * size_t(n) * size_t(n));
    for (size_t i = 0; i < e.vectors.size(); ++i) {
        filters[i] = float(e.vectors[i] / std::sqrt(e.values[i / size_t(n)] + epsilon));
        filters[e.vectors.size() + i] = -filters[i];
    }
    return filters;
}

}  // namespace convoy
