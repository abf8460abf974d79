// Mixup and CutMix: each image of a batch is mixed with its partner, the next one of the global
// batch (of the last one the first), and has two labels. Arithmetic shared by both backends. What
// is drawn depends on seed, epoch and sample alone.
#pragma once
#include "backend/augment.h"

namespace convoy {

/// What of a mixed image is its own, and what its partner's.
struct Mix {
    float outside;                 ///< own share of a pixel outside the box; inside it is 0
    int top, left, bottom, right;  ///< the box, in pixels of the output; its end is not part of it
    float share;                   ///< own share of the image, which is its own label's

    /// Own share of the pixel in row i, column j.
    CONVOY_HD float own(int i, int j) const { return i >= top && i < bottom && j >= left && j < right ? 0 : outside; }
};

/// A draw of Beta(alpha, alpha) with alpha in (0, 1], by Johnk's method: u^(1/alpha) and
/// v^(1/alpha) until their sum is at most 1. In logarithms, which a small alpha does not underflow.
CONVOY_HD double draw_share(double alpha, uint64_t seed, uint32_t epoch, uint32_t sample) {
    for (uint32_t attempt = 1; attempt <= 32; ++attempt) {
        const Random4 r = philox(seed, sample, attempt, epoch, purpose_mix);
        for (int pair = 0; pair < 4; pair += 2) {
            const double x = log((r.word[pair] + 0.5) * 0x1p-32) / alpha,
                         y = log((r.word[pair + 1] + 0.5) * 0x1p-32) / alpha;
            if (exp(x) + exp(y) <= 1) return 1 / (1 + exp(y - x));
        }
    }
    return 0.5;  // each pair fails with probability 1/2 at most: once in 2^64 samples
}

/// torchvision's CutMix (transforms.v2) of an image [height, width]: a box around a pixel with
/// sides sqrt(1 - share) of the image's, cut off at its borders. The share is set anew from what is
/// left.
CONVOY_HD Mix cut_box(double share, int y, int x, int height, int width) {
    const double half = 0.5 * sqrt(1 - share);
    const int half_width = int(half * width), half_height = int(half * height);
    Mix m{1, y - half_height, x - half_width, y + half_height, x + half_width, 0};
    m.top = m.top < 0 ? 0 : m.top;
    m.left = m.left < 0 ? 0 : m.left;
    m.bottom = m.bottom > height ? height : m.bottom;
    m.right = m.right > width ? width : m.right;
    m.share = float(1 - double(m.bottom - m.top) * (m.right - m.left) / (double(height) * width));
    return m;
}

/// How a sample is mixed in an output [height, width]. If both ways are on: one of them, with
/// probability 1/2.
CONVOY_HD Mix draw_mix(const Augment& a, int height, int width, uint64_t seed, uint32_t epoch, uint32_t sample) {
    const Random4 r = philox(seed, sample, 0, epoch, purpose_mix);
    const bool cut = a.cutmix > 0 && (a.mixup <= 0 || r.word[0] >> 31);
    const double share = draw_share(double(cut ? a.cutmix : a.mixup), seed, epoch, sample);
    if (!cut) return {float(share), 0, 0, 0, 0, float(share)};
    return cut_box(share, int(uniform_below(r.word[1], uint32_t(height))),
                   int(uniform_below(r.word[2], uint32_t(width))), height, width);
}

/// What a mixed batch has besides its labels; device, [n]. Null: it is not mixed.
struct MixedLabels {
    int32_t* partners = nullptr;  ///< the partner's label
    float* shares = nullptr;      ///< Mix::share
};

/// What an image's logits are to be.
struct Target {
    int own, partner;  ///< labels
    double share;      ///< of `own`

    CONVOY_HD double of(int label) const { return (label == own ? share : 0) + (label == partner ? 1 - share : 0); }
    /// Whose prediction counts as correct.
    CONVOY_HD int larger() const { return share >= 0.5 ? own : partner; }
};

CONVOY_HD Target target_of(const int32_t* labels, const MixedLabels& mixed, int i) {
    if (!mixed.partners) return {labels[i], labels[i], 1};
    return {labels[i], mixed.partners[i], double(mixed.shares[i])};
}

}  // namespace convoy
