// The model's input for images of another size: on data sets that the test cuts itself, on one and
// two ranks, and in a separate evaluation.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

constexpr int inner = 28, margin = 5, outer = inner + 2 * margin, train_images = 90, test_images = 50;

std::string big_endian(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

/// Returns a pixel of a grey image whose centre gives its class; its border has other numbers.
uint8_t pixel(int image, int label, int row, int column) {
    const bool centre = row >= margin && row < margin + inner && column >= margin && column < margin + inner;
    if (!centre) return uint8_t((image * 131 + row * 17 + column * 29) % 256);
    return uint8_t((label * 25 + (row - margin) * 7 * (label + 1) + (column - margin) * 3 + image % 9) % 256);
}

/// Writes MNIST's four files, without `border` pixels on each side, and converts them to a data set
/// in dir/name.
void make_images(const TempDir& dir, const std::string& name, int border) {
    const std::string from = dir.path(name + "-idx");
    const int side = outer - 2 * border;
    for (const auto& [split, images] : {std::pair{"train", train_images}, {"t10k", test_images}}) {
        std::string pixels = big_endian(0x803) + big_endian(uint32_t(images)) + big_endian(uint32_t(side)) +
                             big_endian(uint32_t(side)),
                    labels = big_endian(0x801) + big_endian(uint32_t(images));
        for (int n = 0; n < images; ++n) {
            labels += char(n * 7 % 10);
            for (int i = 0; i < side; ++i)
                for (int j = 0; j < side; ++j) pixels += char(pixel(n, n * 7 % 10, i + border, j + border));
        }
        write_file(from + "/" + split + "-images-idx3-ubyte", pixels);
        write_file(from + "/" + split + "-labels-idx1-ubyte", labels);
    }
    ASSERT_EQ("", failure(convoy_alone("convert mnist --from " + from + " --to " + dir.path(name))));
}

class Images : public testing::Test {
protected:
    void SetUp() override {
        make_images(dir_, "whole", 0);
        make_images(dir_, "centres", margin);
    }
    void train_any(const std::string& run, const std::string& data, const std::string& options, int ranks = 1) {
        const Finished f = launch(ranks, "train --log-interval 1 --device cpu --output " + dir_.path(run) + " --data " +
                                             dir_.path(data) + " " + options);
        ASSERT_EQ("", failure(f)) << options;
    }
    void train(const std::string& run, const std::string& data, const std::string& options, int ranks = 1) {
        train_any(run, data, "--model mnist-linear --batch-size 32 --lr 0.05 --mean 0.5 --stddev 0.25 " + options,
                  ranks);
    }
    std::vector<double> read(const std::string& run, const std::string& name) const {
        return column(dir_.path(run), name);
    }
    /// Returns convoy's own line about RUN/model.h5 on a data set.
    std::string measured(const std::string& run, const std::string& data, const std::string& options = "") {
        const Finished f = convoy_alone("evaluate --device cpu --model-file " + dir_.path(run) + "/model.h5 --data " +
                                        dir_.path(data) + " " + options);
        EXPECT_EQ("", failure(f));
        const size_t begin = f.out.find("): "), end = f.out.find(" images/s");
        return f.out.substr(begin, f.out.rfind(',', end) - begin);
    }

    const TempDir dir_;
};

// If images are resized to the side that they have, they are only cut: like a data set of their
// centres.
TEST_F(Images, CentresTrainLikeADataSetOfCentres) {
    const std::string cut = "--image-size " + std::to_string(inner) + " --resize " + std::to_string(outer);
    train("cut", "whole", "--epochs 4 " + cut);
    train("centres", "centres", "--epochs 4");
    train("mirrored", "centres", "--epochs 4 --tta mirror");
    train("cut-mirrored", "whole", "--epochs 4 --tta mirror " + cut);
    const std::vector<double> losses = read("centres", "train/loss");
    ASSERT_EQ(losses.size(), 12u);
    EXPECT_LT(losses.back(), losses.front() / 2) << "the classes can be learned";
    EXPECT_EQ(read("cut", "train/loss"), losses);
    EXPECT_EQ(read("cut", "eval/loss"), read("centres", "eval/loss"));
    EXPECT_EQ(read("cut-mirrored", "eval/loss"), read("mirrored", "eval/loss"));
    EXPECT_NE(read("mirrored", "eval/loss"), read("centres", "eval/loss"));
    // The model's file records its input.
    const std::string of_centres = measured("centres", "centres");
    EXPECT_NE(of_centres, "");
    EXPECT_EQ(measured("cut", "whole"), of_centres);
    EXPECT_EQ(measured("cut", "whole", "--tta mirror"), measured("centres", "centres", "--tta mirror"));
    EXPECT_NE(measured("cut", "centres"), of_centres) << "those are enlarged";
    EXPECT_EQ("", refusal(convoy_alone("evaluate --device cpu --model-file " + dir_.path("centres") +
                                       "/model.h5 --data " + dir_.path("whole")),
                          Exit::bad_input, {"model.h5", "28x28 pixels", "38x38 pixels"}));
}

// A window is a function of seed, epoch and sample: losses of two ranks differ only by rounding.
TEST_F(Images, RandomWindowsAreTheSameOnTwoRanksAndAfterAnInterruption) {
    const std::string windows = "--image-size 28 --random-resized-crop --flip --seed 3 ";
    train("one", "whole", "--epochs 3 " + windows);
    train("two", "whole", "--epochs 3 " + windows, 2);
    const std::vector<double> one = read("one", "train/loss"), two = read("two", "train/loss");
    ASSERT_EQ(one.size(), 9u);
    EXPECT_LE(deviation(two, one), 1e-5);
    train("plain", "whole", "--epochs 3 --image-size 28 --seed 3");
    EXPECT_GT(deviation(read("plain", "train/loss"), one), 1e-3) << "windows are not the centre";

    train("stopped", "whole", "--epochs 3 --max-steps 4 " + windows);
    train("stopped", "whole", "--epochs 3 --resume auto " + windows);
    EXPECT_EQ(read("stopped", "train/loss"), one);
    train("other", "whole", "--epochs 3 --image-size 28 --random-resized-crop --flip --seed 4 ");
    EXPECT_GT(deviation(read("other", "train/loss"), one), 1e-3);
}

// Images of several sizes whose short side is 40, and the squares in their middle: as JPEG files,
// as pixels, and cut by the converter.
TEST_F(Images, OfManySizesTrainLikeSquaresCutBefore) {
    for (int n = 0; n < 36; ++n) {
        const RgbImage image = n % 2 ? pattern(40, 40 + 8 * (n % 5), uint32_t(n)) : pattern(48, 40, uint32_t(n));
        write_file(dir_.path("files/" + std::string(n % 3 ? "a" : "b") + "/" + std::to_string(n) + ".jpg"),
                   jpeg_of(image));
    }
    const auto losses_of = [&](const std::string& name, const std::string& how, const std::string& seen, int ranks) {
        EXPECT_EQ("", failure(convoy_alone("convert imagefolder --val-share 0.3 --shards 2 --from " +
                                           dir_.path("files") + " --to " + dir_.path(name) + " " + how)));
        train_any(name + "-run", name,
                  "--model resnet18 --batch-size 8 --epochs 2 --lr 0.01 --eval-images 7 --mean 0.5,0.5,0.5 "
                  "--stddev 0.25,0.25,0.25 " +
                      seen,
                  ranks);
        std::vector<double> losses = read(name + "-run", "train/loss");
        for (const double loss : read(name + "-run", "eval/loss")) losses.push_back(loss);
        return losses;
    };
    for (const int ranks : {1, 2}) {
        const std::string of = std::to_string(ranks), centre = "--image-size 40 --resize 40";
        const std::vector<double> squares = losses_of("squares" + of, "--size 40x40", "", ranks);
        EXPECT_EQ(squares.size(), 2 * 4u + 2);
        EXPECT_EQ(losses_of("pixels" + of, "--short-side 40", centre, ranks), squares) << ranks << " ranks";
        EXPECT_EQ(losses_of("files" + of, "--keep-jpeg", centre, ranks), squares) << ranks << " ranks";
    }
}

// At a rate of 0 an epoch equals that of a separate run at its size.
TEST_F(Images, SizesChangeByEpoch) {
    make_data(dir_.path("colour"), 40, 20, "40x40x3", 4);
    const auto losses_of = [&](const std::string& run, const std::string& options) {
        train_any(run, "colour",
                  "--model resnet18 --stem cifar --batch-size 16 --epochs 3 --random-resized-crop " + options);
        return read(run, "train/loss");
    };
    const std::string by_epoch = "--image-size 16:0,20:1,24:2 ";
    const std::vector<double> small = losses_of("16", "--lr 0 --image-size 16"),
                              medium = losses_of("20", "--lr 0 --image-size 20"),
                              large = losses_of("24", "--lr 0 --image-size 24"),
                              all = losses_of("all", "--lr 0 " + by_epoch);
    ASSERT_EQ(all.size(), 9u);
    for (size_t i = 0; i < 9; ++i) {
        EXPECT_EQ(all[i], (i < 3 ? small : i < 6 ? medium : large)[i]) << i;
        EXPECT_TRUE(small[i] != medium[i] && medium[i] != large[i]) << "sizes make a difference";
    }
    EXPECT_EQ(read("all", "eval/loss").size(), 3u);
    EXPECT_EQ(losses_of("last", "--lr 0 --image-size 16:0,24:3"), small)
        << "what comes after the end is evaluated only";
    EXPECT_NE(read("last", "eval/loss"), read("16", "eval/loss"));
    const std::vector<double> whole = losses_of("whole", "--lr 0.01 " + by_epoch);
    losses_of("parts", "--lr 0.01 --max-steps 4 " + by_epoch);
    EXPECT_EQ(losses_of("parts", "--lr 0.01 --resume auto " + by_epoch), whole);
    EXPECT_EQ("", failure(convoy_alone("evaluate --device cpu --model-file " + dir_.path("parts") +
                                       "/model.h5 --data " + dir_.path("colour"))));
}

// The sizes end at that of the images. Before that images are resized as a whole; evaluations use
// them unchanged.
TEST_F(Images, SmallerImagesShowTheWholeImage) {
    make_data(dir_.path("colour"), 32, 16, "24x24x3", 4);
    const std::string model = "--model resnet18 --stem cifar --batch-size 16 --epochs 2 --lr 0 ";
    train_any("by-epoch", "colour", model + "--image-size 16:0,24:1");
    train_any("small", "colour", model + "--image-size 16 --resize 16");
    train_any("plain", "colour", model);
    const std::vector<double> got = read("by-epoch", "train/loss"), small = read("small", "train/loss"),
                              plain = read("plain", "train/loss");
    ASSERT_EQ(got.size(), 4u);
    EXPECT_EQ(got, (std::vector<double>{small[0], small[1], plain[2], plain[3]}));
    EXPECT_EQ("", refusal(convoy_alone("train --device cpu --data " + dir_.path("colour") + " --output " +
                                       dir_.path("no") + " " + model + "--image-size 16:0,24:1 --crop-pad 2"),
                          Exit::usage, {"--crop-pad 2", "--random-resized-crop"}));
}

TEST_F(Images, WhatDoesNotFitIsOneLine) {
    const auto refused = [&](const std::string& options, const std::vector<std::string>& words,
                             const std::string& model = "mnist-linear") {
        EXPECT_EQ("",
                  refusal(launch(2, "train --device cpu --batch-size 8 --max-steps 1 --model " + model + " --output " +
                                        dir_.path("refused") + " --data " + dir_.path("whole") + " " + options),
                          Exit::usage, words))
            << options;
    };
    refused("--image-size 0", {"--image-size", "4096"});
    refused("--image-size 28x28x1", {"--image-size", "side"});
    for (const std::string sizes : {"28:0,28", "20:1,28:2", "20:0,28:0", "20:0,", "28:0,20:1,24:1"})
        refused("--image-size " + sizes, {"--image-size " + sizes, "160:0,192:10,224:20"});
    refused("--image-size 28 --resize 20", {"--resize 20", "--image-size 28"});
    refused("--resize 20", {"--resize 20", "--image-size"});
    refused("--image-size 28 --crop-pad 2", {"--crop-pad 2", "--random-resized-crop"});
    refused("--random-resized-crop --crop-pad 2", {"--crop-pad", "--random-resized-crop"});
    refused("--random-resized-crop --crop-scale 1,0.1", {"--crop-scale", "smaller one first"});
    refused("--random-resized-crop --crop-ratio 0,1", {"--crop-ratio", "0.01"});
    refused("--image-size 28 --tta full", {"--tta full", "mirror"});
    refused("--image-size 32", {"airbench94", "--image-size"}, "airbench94");
}

}  // namespace
}  // namespace convoy::test
