// How often each value of a pixel occurs, and mean and deviation from that: exact, and the same in
// whatever order pixels are counted.
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
    /// As `values` of another gave them, [channels, 256].
    explicit PixelCounts(std::vector<int64_t> values) : channels_(values.size() / 256), counts_(std::move(values)) {}

    /// Counts pixels [bytes / channels, channels].
    void add(const uint8_t* pixels, size_t bytes);
    void add(const PixelCounts& other);
    const std::vector<int64_t>& values() const { return counts_; }
    /// Of what was counted; there must be something.
    PixelStatistics statistics() const;

private:
    size_t channels_;
    std::vector<int64_t> counts_;  // [channels, 256]
};

}  // namespace convoy
