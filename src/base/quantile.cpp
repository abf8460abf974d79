#include "base/quantile.h"

#include <algorithm>
#include <cmath>

namespace convoy {

double quantile(std::vector<double> values, double q) {
    if (values.empty()) return NAN;
    std::sort(values.begin(), values.end());
    const double at = q * double(values.size() - 1);
    const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - double(low)) * (values[high] - values[low]);
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace convoy
