// README.md, Your own images: its lines, as they are written, on a folder of pictures, and the
// model that comes out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "data/png_file.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

/// A picture of class 0 to 3: a disc, a box, stripes or a cross, each in shades of one colour, at
/// any place on any ground, with noise.
RgbImage picture(int label, uint32_t seed) {
    constexpr int colours[4][3] = {{200, 60, 60}, {60, 190, 60}, {70, 70, 210}, {190, 180, 50}};
    std::mt19937 draw(seed);
    const auto below = [&](int from, int to) { return from + int(draw() % uint32_t(to - from)); };
    RgbImage image{below(90, 200), below(90, 200)};
    const int cy = below(image.height / 3, 2 * image.height / 3), cx = below(image.width / 3, 2 * image.width / 3),
              radius = below(20, 35), shade = below(-40, 40), ground[3] = {below(0, 256), below(0, 256), below(0, 256)};
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x) {
            const int dy = std::abs(y - cy), dx = std::abs(x - cx);
            const bool shapes[4] = {dy * dy + dx * dx < radius * radius, dy < radius && dx < radius,
                                    (x + y) / 12 % 2 == 0, dy < radius / 3 || dx < radius / 3};
            for (int c = 0; c < 3; ++c)
                image.pixels.push_back(uint8_t(
                    std::clamp((shapes[label] ? colours[label][c] + shade : ground[c]) + below(-25, 26), 0, 255)));
        }
    return image;
}

std::string png_file_of(const RgbImage& image) {
    const std::vector<uint8_t> png = png_of(image);
    return {png.begin(), png.end()};
}

// Chance is 25 %.
TEST(OwnImages, TheLinesOfTheReadmeEndInAGoodModel) {
    if (run("git ls-files --error-unmatch README.md").code != 0) GTEST_SKIP() << "no checkout";
    TempDir dir;
    const char* const classes[] = {"disc", "box", "stripes", "cross"};
    for (int label = 0; label < 4; ++label)
        for (uint32_t i = 0; i < 80; ++i) {
            const RgbImage image = picture(label, uint32_t(label) * 1000 + i);
            const std::string name = dir.path("photos") + "/" + classes[label] + "/" + std::to_string(i);
            i % 3 == 0 ? write_file(name + ".png", png_file_of(image)) : write_file(name + ".jpg", jpeg_of(image));
        }
    const std::string build = std::filesystem::path(sibling("convoy")).parent_path();
    const Finished f = run("${PYTHON:-/usr/bin/python3} -B tests/runs/readme_commands.py " + build +
                           " 'Your own images' " + dir.path(""));
    ASSERT_EQ(f.code, 0) << f.out << f.err;
    EXPECT_NE(f.out.find("6 commands"), std::string::npos) << f.out;
    const std::vector<double> accuracy = column(dir.path("output/photos"), "eval/accuracy");
    EXPECT_GT(*std::max_element(accuracy.begin(), accuracy.end()), 0.85);
    for (const double loss : column(dir.path("output/photos"), "eval/loss")) EXPECT_LT(loss, 2 * std::log(4.0));
    EXPECT_TRUE(std::filesystem::exists(dir.path("output/photos/metrics.png")));
}

}  // namespace
}  // namespace convoy::test
