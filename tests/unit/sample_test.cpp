// The data sets that ship with Convoy are real and whole. Run from the repository's root.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/commands.h"
#include "data/decode.h"
#include "data/shard.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

TEST(Sample, OfCifarIsRealAndWhole) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(verify({"input/cifar10-sample"}), 0);
    EXPECT_NE(testing::internal::GetCapturedStdout().find("input/cifar10-sample: ok"), std::string::npos);
    const SplitReader train("input/cifar10-sample", "train");
    EXPECT_EQ(train.info().images, 2000);
    std::vector<uint8_t> image(3072);
    int32_t label = -1;
    train.read(0, 1, image.data(), &label);
    EXPECT_EQ(train.info().class_names[label], "frog");  // CIFAR-10's first training image
    EXPECT_EQ(std::vector<int>(image.begin(), image.begin() + 3), (std::vector<int>{59, 62, 63}));
}

// The sample's SOURCE.txt says how it was made. The digests are those of the uncompressed files, in
// the order in which they are read.
TEST(Sample, OfMnistIsReal) {
    const Source source = decode_idx("input/mnist-sample", {});
    ASSERT_EQ(source.splits.size(), 2u);
    EXPECT_EQ(source.checksum, "unknown") << "it is not the whole of MNIST";
    const std::vector<std::string> md5 = {"294fd329ff7cac24b682d047b71117e9", "529b059f379972fba6ba13392ba4af56",
                                          "1d2743c59faa92de1bed834a757f078a", "0ea66c07df11e8b86569640c26429810"};
    for (size_t i = 0; i < md5.size(); ++i)
        EXPECT_EQ(run("zcat input/mnist-sample/" + source.files.at(i) + " | md5sum").out, md5[i] + "  -\n");
    const std::string whole = "../shared/data/mnist";
    if (!fs::is_directory(whole)) return;
    const Source official = decode_idx(whole, {});
    for (size_t i = 0; i < 2; ++i) {
        const Split &some = source.splits[i], &all = official.splits[i];
        const auto rows = [&](const Split& split) {
            std::vector<uint8_t> images(size_t(some.images * split.image_bytes()));
            std::vector<int32_t> labels(size_t(some.images));
            split.read(0, some.images, images.data(), labels.data());
            return std::pair(images, labels);
        };
        EXPECT_EQ(rows(some), rows(all)) << "the sample is where its split begins";
    }
}

}  // namespace
}  // namespace convoy::test
