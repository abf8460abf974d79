// Bilinear resampling with antialiasing: a triangle filter as wide as the scale, like Pillow's
// BILINEAR and torchvision's `antialias=True`. It computes in f32, without their rounding to 8 bits
// between the passes. Both backends and the converter share this arithmetic.
#pragma once
#include <cstdint>
#include <vector>

#include "base/host_device.h"

namespace convoy {

/// The part of an image that an output shows: a window of the image is resized, then cropped.
struct Resampling {
    int top, left, height, width;  ///< the window, in pixels of the image
    int rows, columns;             ///< size of the resized window
    int y, x;                      ///< row and column of the resized window at which the output begins
    bool mirror;                   ///< true: the output is mirrored left-right
};

/// The input pixels of one output pixel along one axis, and their weights.
struct Taps {
    int first, count;
    float centre, inverse, total;
    /// Returns the weight of pixel first + k; the weights of all k sum to 1.
    CONVOY_HD float weight(int k) const { return triangle(k) / total; }
    CONVOY_HD float triangle(int k) const {
        const float distance = (float(first + k) - centre + 0.5f) * inverse,
                    height = 1 - (distance < 0 ? -distance : distance);
        return height > 0 ? height : 0;
    }
};

/// Returns the taps of pixel `i` of `out` pixels, resampled from `in`. Pixels beyond the window do
/// not count, so at its borders the remaining weights are larger.
CONVOY_HD Taps taps_of(int i, int out, int in) {
    const float scale = float(in) / float(out), support = scale > 1 ? scale : 1;
    Taps t{};
    t.centre = scale * (float(i) + 0.5f);
    t.inverse = 1 / support;
    // the pixels whose centres lie within the filter's support, as Pillow rounds them
    const float from = t.centre - support + 0.5f, to = t.centre + support + 0.5f;
    const int first = int(from), end = int(to);
    t.first = first > 0 ? first : 0;
    t.count = (end < in ? end : in) - t.first;
    for (int k = 0; k < t.count; ++k) t.total += t.triangle(k);
    return t;
}

/// Resamples images on the host, row by row. It reuses its tables' memory from image to image. Use
/// one object per thread.
class Resampler {
public:
    /// Begins an output of `out_columns` columns from `image` [any, width, channels], which must
    /// outlive the calls of row().
    void begin(const uint8_t* image, int width, int channels, const Resampling&, int out_columns);
    /// Computes row `i` of the output [out_columns, channels], in values from 0 to 255.
    void row(int i, float* to);

private:
    const uint8_t* image_ = nullptr;
    int width_ = 0, channels_ = 0;
    Resampling what_{};
    std::vector<Taps> taps_;      // [columns of the output]
    std::vector<float> weights_;  // weights of all taps, one output column after the other
    std::vector<float> line_;     // [window width, channels], the weighted sum over rows
};

}  // namespace convoy
