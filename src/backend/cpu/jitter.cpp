// Colour jitter of an image on the host. A change of contrast needs the mean. So a first pass makes
// the changes before contrast and computes the mean, and a second pass makes the others. A pass
// takes one block of pixels at a time, which fits in the L1 cache. Each change is a plain loop.
// There is no `omp simd`: with it GCC keeps a Colour in memory and processes one pixel at a time.
#include "backend/cpu/jitter.h"

#include <algorithm>

#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

constexpr int block_pixels = 512;  // 6 KiB

Colour colour_at(const float* pixel) { return {pixel[0], pixel[1], pixel[2]}; }

void set_colour(float* pixel, const Colour& c) {
    pixel[0] = c.red;
    pixel[1] = c.green;
    pixel[2] = c.blue;
}

/// Blends pixels with the grey `level`. `elements`: three per pixel.
CONVOY_WIDE void blend_with(float level, float share, float* element, int elements) {
    const float rest = (1 - share) * level;
    for (int i = 0; i < elements; ++i) element[i] = within(0, share * element[i] + rest, 255);
}

CONVOY_WIDE void saturate(float share, float* block, int pixels) {
    for (int i = 0; i < pixels; ++i) {
        const Colour c = colour_at(block + 3 * i);
        set_colour(block + 3 * i, blend(c, grey(c), share));
    }
}

CONVOY_WIDE void turn_hues(float turn, float* block, int pixels) {
    for (int i = 0; i < pixels; ++i) set_colour(block + 3 * i, turn_hue(colour_at(block + 3 * i), turn));
}

constexpr int lanes = 8;

/// Adds grey() of each pixel to one of sums [lanes], in turns.
CONVOY_WIDE void add_grey(const float* block, int pixels, double* sums) {
    int i = 0;
    for (; i + lanes <= pixels; i += lanes)
        for (int k = 0; k < lanes; ++k) sums[k] += double(grey(colour_at(block + 3 * (i + k))));
    for (; i < pixels; ++i) sums[i % lanes] += double(grey(colour_at(block + 3 * i)));
}

/// Makes one of the four changes, with the same effect on a pixel as adjusted().
void adjust(const Jitter& j, Adjust what, float* block, int pixels) {
    switch (what) {
        case Adjust::brightness:
            if (j.brightness != 1) blend_with(0, j.brightness, block, 3 * pixels);
            break;
        case Adjust::contrast:
            if (j.contrast != 1) blend_with(j.mean, j.contrast, block, 3 * pixels);
            break;
        case Adjust::saturation:
            if (j.saturation != 1) saturate(j.saturation, block, pixels);
            break;
        case Adjust::hue:
            if (j.hue != 0) turn_hues(j.hue, block, pixels);
            break;
    }
}

/// Calls body(block, pixels) for all blocks of an image.
template <class Body> void each_block(float* image, int pixels, Body body) {
    for (int i = 0; i < pixels; i += block_pixels) body(image + 3 * i, std::min(block_pixels, pixels - i));
}

}  // namespace

void jitter_image(Jitter j, float* image, int pixels) {
    const Adjust *next = j.order, *const end = j.order + 4;
    if (j.contrast != 1) {
        const Adjust* const contrast = std::find(next, end, Adjust::contrast);
        double sums[lanes] = {};
        each_block(image, pixels, [&](float* block, int count) {
            for (const Adjust* what = next; what < contrast; ++what) adjust(j, *what, block, count);
            add_grey(block, count, sums);
        });
        double sum = 0;
        for (const double s : sums) sum += s;
        j.mean = float(sum / pixels);
        next = contrast;
    }
    each_block(image, pixels, [&](float* block, int count) {
        for (const Adjust* what = next; what < end; ++what) adjust(j, *what, block, count);
    });
}

}  // namespace convoy::cpu
