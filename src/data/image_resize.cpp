#include "data/image_resize.h"

#include <algorithm>

#include "base/resample.h"

namespace convoy {
namespace {

/// Returns `long_side` * `wanted` / `short_side`, rounded down.
int scaled(int long_side, int wanted, int short_side) {
    return int(std::min<int64_t>(int64_t(long_side) * wanted / short_side, INT32_MAX));
}

Resampling resampling_of(const RgbImage& image, const Resize& how, int& height, int& width) {
    const int h = image.height, w = image.width;
    Resampling r{
        .top = 0, .left = 0, .height = h, .width = w, .rows = 0, .columns = 0, .y = 0, .x = 0, .mirror = false};
    const bool by_short_side = how.kind == Resize::Kind::short_side;
    const int wanted_rows = by_short_side ? how.short_side : how.height,
              wanted_columns = by_short_side ? how.short_side : how.width;
    const bool fills_rows = int64_t(w) * wanted_rows >= int64_t(h) * wanted_columns;  // the width exceeds the need
    r.rows = fills_rows ? wanted_rows : scaled(h, wanted_columns, w);
    r.columns = fills_rows ? scaled(w, wanted_rows, h) : wanted_columns;
    height = by_short_side ? r.rows : how.height;
    width = by_short_side ? r.columns : how.width;
    r.y = (r.rows - height) / 2;
    r.x = (r.columns - width) / 2;
    return r;
}

}  // namespace

std::string Resize::text() const {
    if (kind == Kind::short_side) return "short side " + std::to_string(short_side);
    if (kind == Kind::exact) return std::to_string(height) + "x" + std::to_string(width);
    return "as they are";
}

bool resize(const RgbImage& from, const Resize& how, RgbImage& to) {
    if (how.kind == Resize::Kind::as_it_is) return false;
    const Resampling what = resampling_of(from, how, to.height, to.width);
    if (what.rows == from.height && what.columns == from.width && to.height == what.rows && to.width == what.columns)
        return false;
    check_image_size(to.height, to.width, "becomes", ImageFault::too_narrow);
    to.set_size(to.height, to.width);
    to.pixels.resize(size_t(to.height) * size_t(to.width) * 3);
    std::vector<float> line(size_t(to.width) * 3);
    Resampler resampler;
    resampler.begin(from.pixels.data(), from.width, 3, what, to.width);
    uint8_t* pixel = to.pixels.data();
    for (int row = 0; row < to.height; ++row) {
        resampler.row(row, line.data());
        for (const float value : line) *pixel++ = uint8_t(std::clamp(value + 0.5f, 0.0f, 255.0f));
    }
    return true;
}

}  // namespace convoy
