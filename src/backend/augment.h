// Augmentation arithmetic shared by both backends: which source pixel of a sample lands where, and
// its normalised value.
#pragma once
#include "base/philox.h"

namespace convoy {

struct Augment {
    int pad = 0;             ///< pixels added on each side before a random crop back to the original size; 0: no crop
    bool reflect = false;    ///< what the padding shows: the mirrored image, or black (value 0 before normalising)
    bool flip = false;       ///< mirror left-right with probability 1/2
    bool alternate = false;  ///< with flip: drawn once a sample, and turned over every epoch

    /// nothing is drawn: every sample is shifted by dy, dx and mirrored alike (a view for
    /// evaluation)
    bool fixed = false;
    int dy = 0, dx = 0;
    bool mirror = false;
};

/// Where the crop of one sample starts (in [-pad, pad]) and whether it is mirrored.
struct AugmentDraw {
    int dy, dx;
    bool mirror;
};

CONVOY_HD AugmentDraw draw_augment(const Augment& a, uint64_t seed, uint32_t epoch, uint32_t sample) {
    if (a.fixed) return {a.dy, a.dx, a.mirror};
    const Random4 r = philox(seed, sample, 0, epoch, purpose_augment);
    const uint32_t range = uint32_t(2 * a.pad + 1);
    const uint32_t mirror =
        a.alternate ? (philox(seed, sample, 0, 0, purpose_augment).word[2] >> 31) ^ (epoch & 1) : r.word[2] >> 31;
    return {int(uniform_below(r.word[0], range)) - a.pad, int(uniform_below(r.word[1], range)) - a.pad,
            a.flip && mirror};
}

/// Mirrors an index once at the borders of [0, n) without repeating the edge pixel; needs
/// |overhang| < n.
CONVOY_HD int reflect_index(int i, int n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/// Source row or column of destination index i, or -1 where black padding shows.
CONVOY_HD int source_index(const Augment& a, int i, int shift, int n) {
    const int s = i + shift;
    if (s >= 0 && s < n) return s;
    return a.reflect ? reflect_index(s, n) : -1;
}

}  // namespace convoy
