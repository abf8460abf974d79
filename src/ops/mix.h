// Mixup and CutMix: each image of a batch is mixed with its partner and has two labels. The partner
// is the next image of the global batch; the last image's partner is the first. Both backends share
// this arithmetic. Draws depend on seed, epoch and sample alone.
#pragma once
#include "ops/augment.h"

namespace convoy {

/// The shares of an image and its partner in a mixed image.
struct Mix {
    float outside;                 ///< the image's share of a pixel outside the box; inside the box it is 0
    int top, left, bottom, right;  ///< the box in pixels of the output; bottom and right are exclusive
    float share;                   ///< the image's share of the mixture, which is the weight of its label

    /// Returns the share that the image itself has of the pixel in row i, column j.
    CONVOY_HD float own(int i, int j) const { return i >= top && i < bottom && j >= left && j < right ? 0 : outside; }
};

/// Draws from Beta(alpha, alpha), alpha in (0, 1], by Johnk's method: draw u^(1/alpha) and
/// v^(1/alpha) until their sum is at most 1. Computes with logarithms, because they do not
/// underflow for a small alpha.
CONVOY_HD double draw_share(double alpha, uint64_t seed, uint32_t epoch, uint32_t sample) {
    for (uint32_t attempt = 1; attempt <= 32; ++attempt) {
        const Random4 r = philox(seed, sample, attempt, epoch, purpose_mix);
        for (int pair = 0; pair < 4; pair += 2) {
            const double x = log((r.word[pair] + 0.5) * 0x1p-32) / alpha,
                         y = log((r.word[pair + 1] + 0.5) * 0x1p-32) / alpha;
            if (exp(x) + exp(y) <= 1) return 1 / (1 + exp(y - x));
        }
    }
    return 0.5;  // each pair fails with probability 1/2 at most, so this happens once in 2^64 samples
}

/// Cuts torchvision's CutMix box (transforms.v2) out of an image [height, width]. It is centred on
/// a pixel, and its sides are sqrt(1 - share) of the image's, clipped at the borders. The share is
/// recomputed from the clipped box.
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

/// Draws how a sample is mixed in an output [height, width]. If mixup and CutMix are both on,
/// either is used with probability 1/2.
CONVOY_HD Mix draw_mix(const Augment& a, int height, int width, uint64_t seed, uint32_t epoch, uint32_t sample) {
    const Random4 r = philox(seed, sample, 0, epoch, purpose_mix);
    const bool cut = a.cutmix > 0 && (a.mixup <= 0 || r.word[0] >> 31);
    const double share = draw_share(double(cut ? a.cutmix : a.mixup), seed, epoch, sample);
    if (!cut) return {float(share), 0, 0, 0, 0, float(share)};
    return cut_box(share, int(uniform_below(r.word[1], uint32_t(height))),
                   int(uniform_below(r.word[2], uint32_t(width))), height, width);
}

/// The second labels of a mixed batch, on the device, [n]. Null: it is not mixed.
struct MixedLabels {
    int32_t* partners = nullptr;  ///< the partner's label
    float* shares = nullptr;      ///< Mix::share
};

/// The target distribution of an image's logits.
struct Target {
    int own, partner;  ///< labels
    double share;      ///< weight of `own`

    CONVOY_HD double of(int label) const { return (label == own ? share : 0) + (label == partner ? 1 - share : 0); }
    /// Returns the label that counts as correct when predicted.
    CONVOY_HD int larger() const { return share >= 0.5 ? own : partner; }
};

CONVOY_HD Target target_of(const int32_t* labels, const MixedLabels& mixed, int i) {
    if (!mixed.partners) return {labels[i], labels[i], 1};
    return {labels[i], mixed.partners[i], double(mixed.shares[i])};
}

}  // namespace convoy
