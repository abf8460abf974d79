#include "data/pixel_counts.h"

#include <cmath>

namespace convoy {

void PixelCounts::add(const uint8_t* pixels, size_t bytes) {
    for (size_t i = 0; i < bytes; i += channels_)
        for (size_t c = 0; c < channels_; ++c) ++counts_[c * 256 + pixels[i + c]];
}

void PixelCounts::add(const PixelCounts& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

PixelStatistics PixelCounts::statistics() const {
    PixelStatistics result;
    for (size_t c = 0; c < channels_; ++c) {
        const int64_t* count = &counts_[c * 256];
        int64_t all = 0;
        for (int value = 0; value < 256; ++value) all += count[value];
        const double total = double(all);
        double mean = 0, variance = 0;
        for (int value = 0; value < 256; ++value) mean += double(count[value]) * value / total;
        for (int value = 0; value < 256; ++value)
            variance += double(count[value]) * (value - mean) * (value - mean) / total;
        result.mean.push_back(mean / 255);
        result.stddev.push_back(std::sqrt(variance) / 255);
    }
    return result;
}

}  // namespace convoy
