// Resized images, compared with Pillow's BILINEAR filter, which torchvision uses.
#include "data/image_resize.h"

#include <gtest/gtest.h>

#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

constexpr const char* with_pillow = R"(
import sys, numpy
from PIL import Image
h, w, rows, columns = map(int, sys.argv[1:5])
image = Image.frombytes("RGB", (w, h), open(sys.argv[5], "rb").read())
open(sys.argv[6], "wb").write(image.resize((columns, rows), Image.BILINEAR).tobytes())
)";

/// Returns `image` as resized by Pillow, [rows, columns, 3].
std::string pillow(const RgbImage& image, int rows, int columns) {
    const TempDir dir;
    write_file(dir.path("in"), {image.pixels.begin(), image.pixels.end()});
    write_file(dir.path("resize.py"), with_pillow);
    const Finished f =
        run(formatted("${PYTHON:-/usr/bin/python3} %s %d %d %d %d %s %s", dir.path("resize.py").c_str(), image.height,
                      image.width, rows, columns, dir.path("in").c_str(), dir.path("out").c_str()));
    EXPECT_EQ(f.code, 0) << f.err;
    return read_file(dir.path("out"));
}

class ImageResize : public testing::Test {
protected:
    void SetUp() override {
        if (run("${PYTHON:-/usr/bin/python3} -c 'import numpy, PIL'").code != 0)
            GTEST_SKIP() << "needs a Python with Pillow and numpy";
    }
};

Resize short_side(int side) { return {Resize::Kind::short_side, side}; }
Resize exactly(int height, int width) { return {Resize::Kind::exact, 0, height, width}; }

TEST_F(ImageResize, IsWithinOneOfPillow) {
    const struct {
        int h, w, rows, columns;
    } cases[] = {{60, 83, 32, 44}, {83, 60, 44, 32}, {20, 31, 64, 99}, {500, 37, 432, 32}, {33, 33, 32, 32}};
    for (const auto& c : cases) {
        const RgbImage image = pattern(c.h, c.w, 3);
        RgbImage small;
        ASSERT_TRUE(resize(image, short_side(std::min(c.rows, c.columns)), small));
        ASSERT_EQ(std::pair(small.height, small.width), std::pair(c.rows, c.columns)) << c.h << "x" << c.w;
        const std::string other = pillow(image, c.rows, c.columns);
        ASSERT_EQ(other.size(), small.pixels.size());
        int64_t differ = 0;
        for (size_t i = 0; i < other.size(); ++i) {
            const int difference = std::abs(int(small.pixels[i]) - int(uint8_t(other[i])));
            ASSERT_LE(difference, 1) << i;  // Pillow rounds to 8 bits between its two passes
            differ += difference;
        }
        EXPECT_LT(differ, int64_t(other.size()) / 3) << "what is rounded twice seldom differs";
    }
}

// Same rule as torchvision.transforms.Resize: int(size * long / short).
TEST_F(ImageResize, ShortSideKeepsTheAspectRoundedDown) {
    const struct {
        int h, w, side, rows, columns;
    } cases[] = {{375, 500, 256, 256, 341}, {500, 375, 256, 341, 256}, {10, 10, 7, 7, 7},
                 {3, 1000, 2, 2, 666},      {1, 1, 256, 256, 256},     {99, 100, 98, 98, 98}};
    for (const auto& c : cases) {
        RgbImage small;
        resize(pattern(c.h, c.w, 1), short_side(c.side), small);
        EXPECT_EQ(std::pair(small.height, small.width), std::pair(c.rows, c.columns)) << c.h << "x" << c.w;
    }
}

// The result is the middle of Pillow's image that just covers the size.
TEST_F(ImageResize, AnExactSizeIsCutFromTheMiddle) {
    const struct {
        int h, w, height, width, rows, columns;
    } cases[] = {
        {60, 90, 32, 32, 32, 48}, {90, 60, 32, 32, 48, 32}, {50, 50, 20, 41, 41, 41}, {40, 61, 30, 30, 30, 45}};
    for (const auto& c : cases) {
        const RgbImage image = pattern(c.h, c.w, 5);
        RgbImage cut;
        ASSERT_TRUE(resize(image, exactly(c.height, c.width), cut));
        ASSERT_EQ(std::pair(cut.height, cut.width), std::pair(c.height, c.width));
        const std::string other = pillow(image, c.rows, c.columns);
        for (int y = 0; y < c.height; ++y)
            for (int x = 0; x < c.width * 3; ++x) {
                const int row = y + (c.rows - c.height) / 2, column = x + (c.columns - c.width) / 2 * 3;
                ASSERT_NEAR(cut.pixels[y * c.width * 3 + x], uint8_t(other[row * c.columns * 3 + column]), 1)
                    << y << ", " << x;
            }
    }
}

TEST_F(ImageResize, WhatHasTheSizeStaysAsItIs) {
    RgbImage to;
    EXPECT_FALSE(resize(pattern(40, 50, 1), {}, to));
    EXPECT_FALSE(resize(pattern(40, 50, 1), short_side(40), to));
    EXPECT_FALSE(resize(pattern(40, 50, 1), exactly(40, 50), to));
    EXPECT_TRUE(resize(pattern(40, 50, 1), exactly(40, 49), to));
}

TEST_F(ImageResize, BeyondTheLimitsIsRefused) {
    RgbImage to;
    try {
        resize(pattern(2, 600, 1), short_side(256), to);
        ADD_FAILURE() << "it was resized";
    } catch (const BadImage& bad) {
        EXPECT_EQ(std::string(bad.what()).find("becomes 256x76800 pixels, more than 16384 a side"), 0u) << bad.what();
    }
}

}  // namespace
}  // namespace convoy::test
