// Bilinear resampling with antialias: a triangle as wide as the scale, as Pillow's BILINEAR and
// torchvision's `antialias=True` have it, in f32 and without their rounding to 8 bits between the
// passes. The arithmetic is shared by both backends and the converter.
#pragma once
#include <cstdint>
#include <vector>

#include "base/host_device.h"

namespace convoy {

/// What an output shows of an image: a window of the image is resized, and cut.
struct Resampling {
    int top, left, height, width;  ///< the window, in pixels of the image
    int rows, columns;             ///< what the window is resized to
    int y, x;                      ///< row and column of that at which the output begins
    bool mirror;                   ///< the output left-right
};

/// Which pixels of `in` make pixel `i` of `out` along one axis, and with which weights.
struct Taps {
    int first, count;
    float centre, inverse, total;
    /// Of pixel first + k; those of all k sum to 1.
    CONVOY_HD float weight(int k) const { return triangle(k) / total; }
    CONVOY_HD float triangle(int k) const {
        const float distance = (float(first + k) - centre + 0.5f) * inverse,
                    height = 1 - (distance < 0 ? -distance : distance);
        return height > 0 ? height : 0;
    }
};

/// Pixels beyond the window do not count: at its borders the others weigh more.
CONVOY_HD Taps taps_of(int i, int out, int in) {
    const float scale = float(in) / float(out), support = scale > 1 ? scale : 1;
    Taps t{};
    t.centre = scale * (float(i) + 0.5f);
    t.inverse = 1 / support;
    // where a pixel's middle lies within reach, rounded towards the window
    const float from = t.centre - support + 0.5f, to = t.centre + support + 0.5f;
    const int first = int(from), end = int(to);
    t.first = first > 0 ? first : 0;
    t.count = (end < in ? end : in) - t.first;
    for (int k = 0; k < t.count; ++k) t.total += t.triangle(k);
    return t;
}

/// Resamples images on the host, row by row. Its tables are kept from image to image; one a thread.
class Resampler {
public:
    /// From now on `image` [any, width, channels], which stays where it is, for an output of so
    /// many columns.
    void begin(const uint8_t* image, int width, int channels, const Resampling&, int out_columns);
    /// Row `i` of the output [out_columns, channels], from 0 to 255.
    void row(int i, float* to);

private:
    const uint8_t* image_ = nullptr;
    int width_ = 0, channels_ = 0;
    Resampling what_{};
    std::vector<Taps> taps_;      // by column of the output
    std::vector<float> weights_;  // of all columns' taps, one column after the other
    std::vector<float> line_;     // the window's columns, summed over rows
};

}  // namespace convoy
