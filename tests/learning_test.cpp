// Training on real images reaches what others published. MNIST needs the four original files in ../shared/data/mnist.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "cluster.h"

namespace convoy::test {
namespace {

class Mnist : public testing::Test {
protected:
    void SetUp() override {
        const std::string files = "../shared/data/mnist";
        if (!std::filesystem::is_directory(files)) GTEST_SKIP() << files << " is not there: the original MNIST files";
        const Finished f = convoy_alone("convert mnist --from " + files + " --to " + data_);
        ASSERT_EQ("", failure(f));
        EXPECT_NE(f.out.find("60000 train images, 10000 test images, 28x28x1"), std::string::npos) << f.out;
    }
    Finished train(const std::string& arguments) {
        Finished f =
            launch(2, "train --data " + data_ + " --log-interval 500 --overwrite --output " + dir_.path("run") + " " + arguments, 120);
        EXPECT_EQ("", failure(f));
        return f;
    }

    TempDir dir_;
    std::string data_ = dir_.path("mnist");
};

// A published log of PyTorch on two machines, 128 samples each (784 -> 10, Adam at 0.001, 20 epochs): test accuracy 92.66 %, test
// loss 0.2705, one seed. It does not say how pixels were scaled: the data set's mean and deviation, as here, match it; pixels that
// are only divided by 255 (--mean 0 --stddev 1) give 92.76 % and 0.263. Seeds differ by 0.005 in the loss: the mean is compared.
TEST_F(Mnist, LinearReachesThePublishedTestLoss) {
    constexpr int seeds = 3;
    double accuracy = 0, loss = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
        train("--model mnist-linear --batch-per-rank 128 --epochs 20 --optimizer adam --lr 0.001 --eval-every 0 --seed " +
              std::to_string(seed));
        const double one_accuracy = column(dir_.path("run"), "eval/accuracy").back(),
                     one_loss = column(dir_.path("run"), "eval/loss").back();
        EXPECT_EQ(column(dir_.path("run"), "eval/step").back(), 4700);
        EXPECT_NEAR(one_accuracy, 0.9266, 0.002) << "seed " << seed;
        std::printf("seed %d: test accuracy %.2f %%, test loss %.4f\n", seed, 100 * one_accuracy, one_loss);
        accuracy += one_accuracy / seeds;
        loss += one_loss / seeds;
    }
    std::printf("mean: test accuracy %.2f %% (published 92.66), test loss %.4f (published 0.2705)\n", 100 * accuracy, loss);
    EXPECT_NEAR(accuracy, 0.9266, 0.0015);
    EXPECT_NEAR(loss, 0.2705, 0.003);
}

TEST_F(Mnist, ConvolutionsPassNinetySevenPercent) {
    const Finished f = train("--model mnist-conv --batch-size 64 --epochs 2 --lr 0.01 --momentum 0.9");
    const Score score = score_of(f.out);
    std::printf("two epochs: test accuracy %.2f %%\n", double(score.correct) / 100);
    EXPECT_EQ(score.images, 10000);
    EXPECT_GT(score.correct, 9700);
}

// The CIFAR-10 sample that ships with Convoy: a few steps of ResNet-18 on its images of 32x32. Chance is 40 of 400, give or take 6,
// and a loss of 2.303.
TEST(Learning, ResNetLearnsTheShippedSample) {
    const TempDir dir;
    const Finished f =
        launch(2,
               "train --data input/cifar10-sample --model resnet18 --sync-bn --batch-size 32 --max-steps 24 --log-interval 1 "
               "--optimizer adam --lr 0.001 --checkpoint-every none --output " +
                   dir.path("run"),
               240);
    ASSERT_EQ("", failure(f));
    const Score score = score_of(f.out);
    const std::vector<double> loss = column(dir.path("run"), "train/loss");
    ASSERT_EQ(loss.size(), 24u);
    const double late = std::accumulate(loss.end() - 8, loss.end(), 0.0) / 8;
    std::printf("training loss of the last 8 steps %.3f; %lld of %lld test images\n", late, score.correct, score.images);
    EXPECT_LT(late, 2.25);
    EXPECT_EQ(score.images, 400);
    EXPECT_GT(score.correct, 56);  // seeds 1 to 3 give 76 to 92
}

}  // namespace
}  // namespace convoy::test
