// Quantiles of measurements, as numpy computes them by default.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace convoy {

/// Returns the value below which a share `q` (0 to 1) of `values` lies, interpolated linearly
/// between neighbours; NaN if `values` is empty.
inline double quantile(std::vector<double> values, double q) {
    if (values.empty()) return NAN;
    std::sort(values.begin(), values.end());
    const double at = q * double(values.size() - 1);
    const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - double(low)) * (values[high] - values[low]);
}
inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace convoy
