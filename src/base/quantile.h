// Quantiles of measurements, as numpy computes them by default.
#pragma once
#include <vector>

namespace convoy {

/// Returns the value below which a share `q` (0 to 1) of `values` lies, interpolated linearly
/// between neighbours; NaN if `values` is empty.
double quantile(std::vector<double> values, double q);
double median(const std::vector<double>& values);

}  // namespace convoy
