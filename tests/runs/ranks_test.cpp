// The same training on another number of ranks is equal up to the order of summation; on the same
// number it is equal bit for bit. Rounding differs by 1e-7 from the first step on, and training
// amplifies it. A tail of two images leaves batch norm 8 values per channel in the last stage,
// which turns it into 5e-6 in one step. So learning rates are small here, and each case has its
// bound. The algorithm of convolutions is given, because timing may choose another one for another
// number of threads per rank. That changes rounding, most of all in bf16.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_harness.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Returns how far two trainings from the same start diverged, relative to the distance that they
/// moved: |a - b| / |b - start| over all tensors.
double drift(const std::string& a_file, const std::string& b_file, const std::string& start_file) {
    const auto a = tensors(a_file), b = tensors(b_file), start = tensors(start_file);
    double apart = 0, way = 0;
    for (const auto& [name, values] : b)
        for (size_t i = 0; i < values.size(); ++i) {
            apart += std::pow(double(a.at(name).at(i)) - values[i], 2);
            way += std::pow(double(values[i]) - start.at(name).at(i), 2);
        }
    return std::sqrt(apart / way);
}

class Ranks : public testing::Test {
protected:
    /// Trains on `ranks` ranks into a folder named `run`; a failure fails the test.
    Finished train(int ranks, const std::string& run, const std::string& arguments, int seconds = 60) {
        Finished f =
            launch(ranks, "train --log-interval 1 --checkpoint-every none --output " + dir_.path(run) + " " + arguments,
                   seconds);
        EXPECT_EQ("", failure(f)) << arguments;
        return f;
    }
    std::vector<double> losses(const std::string& run) { return column(dir_.path(run), "train/loss"); }
    std::string model(const std::string& run) { return dir_.path(run) + "/model.h5"; }
    std::string data(int images, int test_images, const std::string& size) {
        make_data(dir_.path("data"), images, test_images, size, std::min(images, 3));
        return "--data " + dir_.path("data") + " ";
    }
    /// Trains on one rank and on each of `ranks`, and compares: losses relatively, weights by
    /// drift(), training accuracies exactly (except in bf16), and the evaluations exactly too,
    /// unless `same_counts` is false.
    void same_on(const std::vector<int>& ranks, const std::string& arguments, const std::string& lr, size_t steps,
                 double loss_bound, double drift_bound, bool same_counts = true);

    TempDir dir_;
};

void Ranks::same_on(const std::vector<int>& ranks, const std::string& arguments, const std::string& lr, size_t steps,
                    double loss_bound, double drift_bound, bool same_counts) {
    const bool bf16 = arguments.find("bf16") != std::string::npos;
    if (bf16 && !has_bf16()) GTEST_SKIP() << "bf16 on a CPU wants AVX-512";
    const std::string rate = " --overwrite --lr " + lr;
    train(1, "start", arguments + " --overwrite --lr 0 --max-steps 1");
    const Score one = score_of(train(1, "1", arguments + rate).out);
    ASSERT_EQ(losses("1").size(), steps);
    for (const int n : ranks) {
        const std::string run = std::to_string(n);
        const Score many = score_of(train(n, run, arguments + rate).out);
        const double apart = deviation(losses(run), losses("1")),
                     drifted = drift(model(run), model("1"), model("start"));
        EXPECT_LE(apart, loss_bound) << n << " ranks: losses";
        EXPECT_LE(drifted, drift_bound) << n << " ranks: weights";
        if (!bf16) {
            EXPECT_EQ(column(dir_.path(run), "train/accuracy"), column(dir_.path("1"), "train/accuracy"))
                << n << " ranks";
        }
        EXPECT_EQ(many.images, one.images) << n << " ranks";
        if (same_counts) {
            EXPECT_EQ(many.correct, one.correct) << n << " ranks";
        }
        std::printf("%d ranks: losses differ by %.1e (bound %.0e), weights by %.1e (bound %.0e)\n", n, apart,
                    loss_bound, drifted, drift_bound);
    }
}

// 103 images in batches of 33: three full steps (33 = 4 x 8 + 1) and a tail of 4. 37 test images
// also have a tail of 4.
TEST_F(Ranks, LinearIsTheSameOn1To4Ranks) {
    same_on({2, 3, 4}, data(103, 37, "28x28x1") + "--model mnist-linear --batch-size 33 --epochs 3 --optimizer adam",
            "0.01", 12, 1e-5, 1e-4);
}

// A tail of 2, so that two of 4 ranks have no sample; dropout masks depend on the place in the
// global batch.
TEST_F(Ranks, ConvolutionsWithDropoutAreTheSame) {
    same_on({2, 3, 4}, data(101, 37, "28x28x1") + "--model mnist-conv --conv-by direct --batch-size 33 --epochs 3",
            "0.02", 12, 1e-5, 1e-4);
}

// Three steps of 13 images and one of 2. Weights that differ in the fourth digit may change the
// result of an evaluated image.
constexpr const char* synchronised =
    "--model resnet18 --stem cifar --sync-bn --crop-pad 2 --flip --batch-size 13 --bucket-mib 1";
TEST_F(Ranks, SynchronisedBatchNormIsTheSame) {
    same_on({3}, data(41, 23, "16x16x3") + synchronised + " --conv-by winograd", "0.001", 4, 2e-4, 2e-3, false);
}
TEST_F(Ranks, SynchronisedBatchNormIsTheSameOn2And4) {
    same_on({2, 4}, data(41, 23, "16x16x3") + synchronised + " --conv-by direct", "0.001", 4, 2e-4, 2e-3, false);
}

// In bf16 each sample's values have the same bits on any number of ranks. Only gradients are summed
// in another order, in f32.
TEST_F(Ranks, Bf16IsTheSame) {
    const std::string arguments =
        data(101, 37, "28x28x1") + "--model mnist-conv --batch-size 33 --epochs 3 --precision bf16 --conv-by ";
    for (const char* way : {"direct", "direct-bf16"}) same_on({2, 3}, arguments + way, "0.02", 12, 1e-4, 1e-3, false);
}

// Synchronised statistics differ in their last place. If that moves a value across the middle
// between two bf16 numbers, it changes by 4e-3, and changes others.
TEST_F(Ranks, Bf16WithSynchronisedBatchNormIsNear) {
    const std::string arguments =
        "--model resnet18 --stem cifar --sync-bn --crop-pad 2 --flip --batch-size 13 --precision bf16 "
        "--conv-by direct-bf16";
    same_on({2, 3}, data(41, 23, "16x16x3") + arguments, "0.001", 4, 2e-2, 0.1, false);
}

// One step on two images: some of 3 and 4 ranks only take part in the all-reduces.
TEST_F(Ranks, RanksWithoutSamplesHelpTheOthers) {
    same_on({3, 4}, data(2, 3, "16x16x3") + "--model resnet18 --stem cifar --conv-by direct --sync-bn --batch-size 8",
            "0.001", 1, 1e-6, 1e-3, false);
}

// Without --sync-bn two images give the same step on 2 ranks as on 4, where two ranks are idle.
TEST_F(Ranks, IdleRanksChangeNothingWithoutSyncBatchNorm) {
    const std::string arguments =
        data(2, 3, "16x16x3") + "--model resnet18 --stem cifar --conv-by direct --batch-size 8 ";
    train(2, "start", arguments + "--lr 0");
    train(2, "2", arguments + "--lr 0.001");
    train(4, "4", arguments + "--lr 0.001");
    EXPECT_LE(deviation(losses("4"), losses("2")), 1e-6);
    const auto two = tensors(model("2")), four = tensors(model("4")), start = tensors(model("start"));
    double apart = 0, way = 0;
    for (const auto& [name, values] : two) {
        // running statistics are averaged over ranks, idle or not
        if (name.ends_with(".mean") || name.ends_with(".var")) continue;
        for (size_t i = 0; i < values.size(); ++i) {
            apart = std::max(apart, std::abs(double(four.at(name)[i]) - values[i]));
            way = std::max(way, std::abs(double(start.at(name)[i]) - values[i]));
        }
    }
    EXPECT_GT(way, 0);
    EXPECT_LE(apart, 1e-5 * way);
}

TEST_F(Ranks, ARunRepeatsBitForBit) {
    make_data(dir_.path("colour"), 41, 23, "16x16x3");
    const std::string conv = data(103, 37, "28x28x1") + "--model mnist-conv --batch-size 33 --epochs 2 --lr 0.05 ";
    const std::string resnet =
        "--data " + dir_.path("colour") +
        " --model resnet18 --sync-bn --flip --crop-pad 2 --batch-size 13 --max-steps 3 --lr 0.05 ";
    std::vector<std::string> runs = {conv, resnet};
    if (has_bf16()) runs.push_back(resnet + "--precision bf16 ");
    for (const std::string& arguments : runs)
        for (int ranks = 1; ranks <= 2; ++ranks) {
            train(ranks, "a", arguments + "--overwrite");
            train(ranks, "b", arguments + "--overwrite");
            EXPECT_EQ(losses("a"), losses("b")) << ranks << " ranks: " << arguments;
            EXPECT_EQ(tensors(model("a")), tensors(model("b"))) << ranks << " ranks: " << arguments;
        }
    train(2, "c", resnet + "--seed 2");
    EXPECT_GT(deviation(losses("c"), losses("a")), 1e-3) << "another seed must give another training";
    EXPECT_FALSE(tensors(model("c")) == tensors(model("a")));
}

// OpenMP may give a rank fewer threads than it requests.
TEST_F(Ranks, FewerThreadsThanAskedForComputeTheSame) {
    const std::string arguments = data(41, 23, "16x16x3") + "--model resnet18 --batch-size 13 --max-steps 2 --lr 0.05 ";
    train(1, "one", arguments + "--threads 1");
    setenv("OMP_THREAD_LIMIT", "1", 1);
    train(1, "limited", arguments + "--threads 2");
    unsetenv("OMP_THREAD_LIMIT");
    EXPECT_EQ(losses("limited"), losses("one"));
    EXPECT_EQ(tensors(model("limited")), tensors(model("one")));
}

// On 2 ranks a sum has one order, however gradients are cut into buckets.
TEST_F(Ranks, BucketsDoNotChangeTheResult) {
    const std::string arguments =
        data(41, 23, "16x16x3") + "--model resnet18 --sync-bn --batch-size 13 --max-steps 3 --lr 0.05 ";
    const Finished many = train(2, "many", arguments + "--bucket-mib 0.5"),
                   one = train(2, "one", arguments + "--bucket-mib 1000");
    EXPECT_EQ(count(one.out, "\nbuckets   1 of gradients"), 1) << one.out;
    EXPECT_EQ(count(many.out, "\nbuckets   1 of gradients"), 0) << many.out;
    EXPECT_EQ(losses("many"), losses("one"));
    EXPECT_EQ(tensors(model("many")), tensors(model("one")));
}

TEST_F(Ranks, BatchNormOfEachRankTrains) {
    const std::string arguments =
        data(120, 40, "16x16x3") + "--model resnet18 --batch-per-rank 15 --epochs 3 --lr 0.02 ";
    const Finished f = train(2, "run", arguments);
    EXPECT_EQ(count(f.out, "\nbatchnorm statistics of each rank's own samples"), 1);
    const std::vector<double> epochs = column(dir_.path("run"), "eval/loss");
    ASSERT_EQ(epochs.size(), 3u);
    EXPECT_LT(losses("run").back(), 0.7 * losses("run").front());
    const Score trained = score_of(f.out);
    // the file holds the averaged statistics that the training evaluated with
    for (int ranks = 1; ranks <= 2; ++ranks) {
        const Finished e = launch(ranks, "evaluate --model-file " + model("run") + " --data " + dir_.path("data"));
        EXPECT_EQ("", failure(e));
        EXPECT_EQ(score_of(e.out).correct, trained.correct) << ranks << " ranks";
    }
    EXPECT_GT(trained.correct, 8) << "chance is 4 of 40";
}

}  // namespace
}  // namespace convoy::test
