// Counts how often each pixel value occurs, and computes mean and deviation from the counts. The
// counts are exact, so the order of pixels does not matter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace convoy {

/// Mean and standard deviation of each channel, in units of pixel / 255.
struct PixelStatistics {
    std::vector<double> mean, stddev;  ///< [channels]
};

class PixelCounts {
public:
    explicit PixelCounts(int channels) : channels_(size_t(channels)), counts_(channels_ * 256, 0) {}
    /// Restores counts from values() [channels, 256].
    explicit PixelCounts(std::vector<int64_t> values) : channels_(values.size() / 256), counts_(std::move(values)) {}

    /// Counts pixels [bytes / channels, channels].
    void add(const uint8_t* pixels, size_t bytes);
    void add(const PixelCounts& other);
    const std::vector<int64_t>& values() const { return counts_; }
    /// Returns mean and deviation of the counted pixels; at least one must have been counted.
    PixelStatistics statistics() const;

private:
    size_t channels_;
    std::vector<int64_t> counts_;  // [channels, 256]
};

}  // namespace convoy
