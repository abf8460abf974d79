// Augmentation arithmetic shared by both backends: which source pixels a sample shows, and where.
#pragma once
#include "base/philox.h"
#include "base/resample.h"

namespace convoy {

/// The part of an image that becomes the model's input.
enum class Crop : uint8_t {
    shifted,         ///< the image, which has the input's size, moved by some pixels
    random_resized,  ///< a random window, resized ("Inception" crop; torchvision's RandomResizedCrop)
    centre           ///< the centre of the image after its short side was resized to short_side
};

struct Augment {
    int pad = 0;             ///< pixels added on each side before a random crop to the original size; 0: no crop
    bool reflect = false;    ///< padding shows the mirrored image; false: black (value 0 before normalising)
    bool flip = false;       ///< mirror left-right with probability 1/2
    bool alternate = false;  ///< flip is drawn once per sample, then inverted every epoch

    /// true: draws nothing; shifts every sample by dy and dx, and mirrors it if `mirror` (a view)
    bool fixed = false;
    int dy = 0, dx = 0;
    bool mirror = false;

    Crop crop = Crop::shifted;
    float scale_low = 0.08f, scale_high = 1;  ///< random_resized: range of the crop's share of the image's area
    float ratio_low = 3.0f / 4, ratio_high = 4.0f / 3;  ///< random_resized: range of the crop's width over height
    int short_side = 0;                                 ///< centre: pixels

    /// Training: alpha, in (0, 1], of the Beta distribution from which shares are drawn
    /// (ops/mix.h); 0: off.
    float mixup = 0, cutmix = 0;
    CONVOY_HD bool mixes() const { return mixup > 0 || cutmix > 0; }

    /// Training: how much an image's colours may change (ops/jitter.h). Hue is in turns, at most
    /// 1/2. 0: off.
    float brightness = 0, contrast = 0, saturation = 0, hue = 0;
    CONVOY_HD bool jitters() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};

/// The start of one sample's crop (in [-pad, pad]), and whether the sample is mirrored.
struct AugmentDraw {
    int dy, dx;
    bool mirror;
};

/// Returns true if a sample is mirrored; `drawn` is the sample's draw of this epoch.
CONVOY_HD bool draw_mirror(const Augment& a, const Random4& drawn, uint64_t seed, uint32_t epoch, uint32_t sample) {
    const uint32_t mirror =
        a.alternate ? (philox(seed, sample, 0, 0, purpose_augment).word[2] >> 31) ^ (epoch & 1) : drawn.word[2] >> 31;
    return a.flip && mirror;
}

CONVOY_HD AugmentDraw draw_augment(const Augment& a, uint64_t seed, uint32_t epoch, uint32_t sample) {
    if (a.fixed) return {a.dy, a.dx, a.mirror};
    const Random4 r = philox(seed, sample, 0, epoch, purpose_augment);
    const uint32_t range = uint32_t(2 * a.pad + 1);
    return {int(uniform_below(r.word[0], range)) - a.pad, int(uniform_below(r.word[1], range)) - a.pad,
            draw_mirror(a, r, seed, epoch, sample)};
}

/// A window of an image, in pixels.
struct Window {
    int top, left, height, width;
};

/// Draws a window as torchvision's RandomResizedCrop does. The area's share and the logarithm of
/// the ratio of sides are uniform. A window that does not fit is drawn again. After ten misses it
/// is the largest central window with an allowed ratio. Draws are in double, so that both backends
/// round alike.
CONVOY_HD Window draw_window(const Augment& a, int height, int width, uint64_t seed, uint32_t epoch, uint32_t sample) {
    const double low = log(double(a.ratio_low)), high = log(double(a.ratio_high));
    for (uint32_t attempt = 1; attempt <= 10; ++attempt) {
        const Random4 r = philox(seed, sample, attempt, epoch, purpose_augment);
        const double share = a.scale_low + (double(a.scale_high) - a.scale_low) * (r.word[0] * 0x1p-32),
                     ratio = exp(low + (high - low) * (r.word[1] * 0x1p-32)), area = double(height) * width * share;
        const int w = int(rint(sqrt(area * ratio))), h = int(rint(sqrt(area / ratio)));
        if (w > 0 && w <= width && h > 0 && h <= height)
            return {int(uniform_below(r.word[2], uint32_t(height - h + 1))),
                    int(uniform_below(r.word[3], uint32_t(width - w + 1))), h, w};
    }
    const double ratio = double(width) / height;
    int h = height, w = width;
    if (ratio < double(a.ratio_low)) h = int(rint(width / double(a.ratio_low)));
    if (ratio > double(a.ratio_high)) w = int(rint(height * double(a.ratio_high)));
    h = h < 1 ? 1 : h;
    w = w < 1 ? 1 : w;
    return {(height - h) / 2, (width - w) / 2, h, w};
}

/// Returns the part of an image [height, width] that an output of rows x columns shows. The crop
/// must not be Crop::shifted.
CONVOY_HD Resampling draw_resampling(const Augment& a, int height, int width, int rows, int columns, uint64_t seed,
                                     uint32_t epoch, uint32_t sample) {
    const bool mirror =
        a.fixed ? a.mirror : draw_mirror(a, philox(seed, sample, 0, epoch, purpose_augment), seed, epoch, sample);
    if (a.crop == Crop::random_resized) {
        const Window w = draw_window(a, height, width, seed, epoch, sample);
        return {w.top, w.left, w.height, w.width, rows, columns, 0, 0, mirror};
    }
    // Like torchvision's Resize and CenterCrop: round the long side down, the corner's .5 to even
    const bool tall = height > width;
    const int longer = int(int64_t(a.short_side) * (tall ? height : width) / (tall ? width : height)),
              all_rows = tall ? longer : a.short_side, all_columns = tall ? a.short_side : longer;
    return {0,
            0,
            height,
            width,
            all_rows,
            all_columns,
            int(rint((all_rows - rows) / 2.0)),
            int(rint((all_columns - columns) / 2.0)),
            mirror};
}

/// Consecutive lines of an image.
struct Lines {
    int first, count;
};

/// Returns the lines of an image that an output of rows x columns reads, and one more on each side,
/// because a GPU may round the ends of the taps differently.
CONVOY_HD Lines lines_shown(const Augment& a, int height, int width, int rows, int columns, uint64_t seed,
                            uint32_t epoch, uint32_t sample) {
    if (a.crop == Crop::shifted) return {0, height};
    const Resampling r = draw_resampling(a, height, width, rows, columns, seed, epoch, sample);
    const Taps top = taps_of(r.y, r.rows, r.height), bottom = taps_of(r.y + rows - 1, r.rows, r.height);
    const int first = r.top + top.first, end = r.top + bottom.first + bottom.count;
    return {first > 0 ? first - 1 : 0, (end < height ? end + 1 : height) - (first > 0 ? first - 1 : 0)};
}

/// Mirrors an index once at the borders of [0, n) without repeating the edge pixel. The index may
/// lie at most n - 1 before the first pixel or behind the last one.
CONVOY_HD int reflect_index(int i, int n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/// Returns the source row or column of destination index i, or -1 where black padding shows.
CONVOY_HD int source_index(const Augment& a, int i, int shift, int n) {
    const int s = i + shift;
    if (s >= 0 && s < n) return s;
    return a.reflect ? reflect_index(s, n) : -1;
}

}  // namespace convoy
