// The plan's line `crop` says which part of an image the model gets, in training and in
// evaluations.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

TEST(CropLine, SaysWhatTrainingAndEvaluationsCompute) {
    TempDir dir;
    make_ragged(dir.path("ragged"), ImageLayout::raw);
    make_data(dir.path("squares"), 40, 10, "32x32x3");
    const std::string resized = "the image resized to a short side of 18, and its centre cut out";
    const std::tuple<std::string, std::string, std::string> cases[] = {
        {"ragged", "--image-size 16", "squares of 16 pixels; in training and in evaluations " + resized},
        {"ragged", "--image-size 16 --random-resized-crop",
         "squares of 16 pixels; in training random windows of 8 to 100 % of the area, resized; in evaluations " +
             resized},
        {"ragged", "--image-size 8:0,16:1 --epochs 2",
         "squares of 8 pixels until epoch 1, of 16 pixels; in training and in evaluations " + resized +
             "; smaller squares show as much of it, resized"},
        {"squares", "--image-size 32 --random-resized-crop --crop-scale 0.5,1",
         "squares of 32 pixels; in training random windows of 50 to 100 % of the area, resized; in evaluations the "
         "image as it is"},
        {"squares", "--image-size 16:0,32:1 --epochs 2",
         "squares of 16 pixels until epoch 1, of 32 pixels; in training and in evaluations the image as it is; "
         "smaller squares show as much of it, resized"},
        {"squares", "--crop-pad 2", ""}};
    for (const auto& [data, options, expected] : cases) {
        const Finished f =
            convoy_alone("train --dry-run --model resnet18 --batch-size 8 --data " + dir.path(data) + " " + options);
        ASSERT_EQ("", failure(f)) << options;
        const size_t at = f.out.find("crop      "), end = f.out.find('\n', at);
        EXPECT_EQ(at == std::string::npos ? "" : f.out.substr(at + 10, end - at - 10), expected) << options;
    }
}

}  // namespace
}  // namespace convoy::test
