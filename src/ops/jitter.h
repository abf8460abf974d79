// Colour jitter: an image's brightness, contrast, saturation and hue change by random factors and
// in a random order. It is torchvision's ColorJitter (transforms.v2) in f32, shared by both
// backends. Draws depend on seed, epoch and sample alone.
#pragma once
#include "ops/augment.h"

namespace convoy {

/// A pixel; each channel is from 0 to 255.
struct Colour {
    float red, green, blue;

    CONVOY_HD float of(int channel) const { return channel == 0 ? red : channel == 1 ? green : blue; }
};

enum class Adjust : uint8_t { brightness, contrast, saturation, hue };

/// The drawn colour changes of one image.
struct Jitter {
    float brightness = 1, contrast = 1, saturation = 1;  ///< factors
    float hue = 0;                                       ///< added to the hue, in turns; 0: unchanged
    Adjust order[4] = {Adjust::brightness, Adjust::contrast, Adjust::saturation, Adjust::hue};
    float mean = 0;  ///< set by the caller: mean of grey() over the image as contrast receives it
};

/// Draws a factor, uniform from max(0, 1 - most) to 1 + most. Computes in double, so that both
/// backends round alike.
CONVOY_HD float draw_factor(float most, uint32_t word) {
    const double low = most < 1 ? 1 - double(most) : 0;
    return float(low + (1 + double(most) - low) * (word * 0x1p-32));
}

/// Draws the jitter of a sample, without its mean.
CONVOY_HD Jitter draw_jitter(const Augment& a, uint64_t seed, uint32_t epoch, uint32_t sample) {
    const Random4 r = philox(seed, sample, 0, epoch, purpose_jitter);
    Jitter j;
    j.brightness = draw_factor(a.brightness, r.word[0]);
    j.contrast = draw_factor(a.contrast, r.word[1]);
    j.saturation = draw_factor(a.saturation, r.word[2]);
    j.hue = float(double(a.hue) * (r.word[3] * 0x1p-31 - 1));
    // One of the 24 orders: each of the first three swaps with itself or one after it.
    uint32_t left = uniform_below(philox(seed, sample, 1, epoch, purpose_jitter).word[0], 24);
    for (uint32_t i = 0; i < 3; ++i) {
        const uint32_t with = i + left % (4 - i);
        left /= 4 - i;
        const Adjust swapped = j.order[i];
        j.order[i] = j.order[with];
        j.order[with] = swapped;
    }
    return j;
}

CONVOY_HD float smaller(float a, float b) { return a < b ? a : b; }
CONVOY_HD float larger(float a, float b) { return a > b ? a : b; }
CONVOY_HD float within(float low, float v, float high) { return smaller(larger(v, low), high); }

CONVOY_HD float grey(const Colour& c) { return 0.2989f * c.red + 0.587f * c.green + 0.114f * c.blue; }

/// Returns share * c + (1 - share) * level, where `level` is a grey. Brightness blends with black.
CONVOY_HD Colour blend(const Colour& c, float level, float share) {
    const float rest = (1 - share) * level;
    return {within(0, share * c.red + rest, 255), within(0, share * c.green + rest, 255),
            within(0, share * c.blue + rest, 255)};
}

/// Returns the hue in sixths of a turn, from -1 to 5: red is 0, green 2, blue 4. A grey's hue is 0.
CONVOY_HD float sixths_of(const Colour& c, float most, float range) {
    const bool red = c.red == most, green = c.green == most;
    const float after = green ? c.blue : c.red, before = green ? c.red : c.green, of_most = green ? 2.0f : 4.0f;
    const float rises = red ? c.green : after, falls = red ? c.blue : before;
    return (red ? 0 : of_most) + (rises - falls) / (range > 0 ? range : 1);
}

/// Returns the value of a channel. Along the circle of hues, a channel falls for a sixth of a turn,
/// stays low for two sixths, rises for one, and stays high for two. `sixths`, from 0 to 12, says
/// where the hue is on this way, counted from the beginning of the fall.
CONVOY_HD float channel_at(float sixths, float most, float range) {
    const float turned = sixths - (sixths >= 6 ? 6.0f : 0.0f);
    return most - range * within(0, smaller(turned, 4 - turned), 1);
}

/// Changes the hue by converting to hue, saturation and value (HSV). Selects among numbers without
/// a branch, so that CPUs process several pixels at once.
CONVOY_HD Colour turn_hue(const Colour& c, float turn) {
    const float most = larger(c.red, larger(c.green, c.blue)), least = smaller(c.red, smaller(c.green, c.blue)),
                range = most - least;
    const float raw = sixths_of(c, most, range) + 6 * turn;  // from -4 to 8
    const float raised = raw + (raw < 0 ? 6.0f : 0.0f), sixths = raised - (raised >= 6 ? 6.0f : 0.0f);
    return {channel_at(sixths + 5, most, range), channel_at(sixths + 3, most, range),
            channel_at(sixths + 1, most, range)};
}

/// Applies one of the four changes.
CONVOY_HD Colour adjusted(const Jitter& j, Adjust what, const Colour& c) {
    switch (what) {
        case Adjust::brightness: return blend(c, 0, j.brightness);
        case Adjust::contrast: return blend(c, j.mean, j.contrast);
        case Adjust::saturation: return blend(c, grey(c), j.saturation);
        case Adjust::hue: return j.hue == 0 ? c : turn_hue(c, j.hue);
    }
    return c;
}

/// Applies all four changes, in the image's order.
CONVOY_HD Colour jittered(const Jitter& j, Colour c) {
    for (int k = 0; k < 4; ++k) c = adjusted(j, j.order[k], c);
    return c;
}

/// Applies the changes before contrast. Jitter::mean is the mean of grey() over the results.
CONVOY_HD Colour before_contrast(const Jitter& j, Colour c) {
    for (int k = 0; k < 4 && j.order[k] != Adjust::contrast; ++k) c = adjusted(j, j.order[k], c);
    return c;
}

}  // namespace convoy
