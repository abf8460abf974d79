// The loss that an evaluation reports, of a training and of `convoy evaluate`, compared with the
// cross-entropy computed in the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/cluster.h"
#include "tests/support/softmax_regression.h"

namespace convoy::test {
namespace {

class Evaluation : public testing::Test {
protected:
    Evaluation() { make_data(data_, 210, 60, "28x28x1"); }
    /// Trains mnist-linear with half of each label smoothed away.
    Finished train(const std::string& more) {
        return launch(2, "train --model mnist-linear --data " + data_ +
                             " --batch-size 210 --label-smoothing 0.5 --mean 0.4 --stddev 0.3 " +
                             "--log-interval 1 --output " + run_ + " " + more);
    }
    RegressionSamples samples(const std::string& split) const { return samples_of(data_, split, 0.4, 0.3); }

    TempDir dir_;
    std::string data_ = dir_.path("data"), run_ = dir_.path("run"), model_ = run_ + "/model.h5";
};

TEST_F(Evaluation, LossIsThePlainCrossEntropy) {
    ASSERT_EQ("", failure(train("--epochs 12 --lr 0.05")));
    const Parameters p = parameters_of(model_);
    const double truth = loss_of(p, samples("test"));
    ASSERT_GT(loss_of(p, samples("test"), 0.5), 2 * truth) << "smoothing must matter for this test to mean anything";
    EXPECT_NEAR(column(run_, "eval/loss").back(), truth, 1e-5 * truth) << "logits are sums of 784 products in float";
    for (const char* batch : {"7", "256"}) {
        const Finished f =
            launch(2, "evaluate --model-file " + model_ + " --data " + data_ + " --batch-per-rank " + batch);
        ASSERT_EQ("", failure(f));
        EXPECT_NEAR(score_of(f.out).loss, truth, 5.1e-5) << "four decimals are printed";
    }
}

TEST_F(Evaluation, TrainingLossIsSmoothed) {
    ASSERT_EQ("", failure(train("--epochs 1 --lr 0 --momentum 0")));
    const Parameters p = parameters_of(model_);
    const double truth = loss_of(p, samples("train"), 0.5);
    ASSERT_GT(std::abs(loss_of(p, samples("train")) - truth), 1e-3 * truth);
    EXPECT_NEAR(column(run_, "train/loss").at(0), truth, 1e-5 * truth);
    EXPECT_NEAR(column(run_, "eval/loss").at(0), loss_of(p, samples("test")), 1e-5 * truth);
}

TEST_F(Evaluation, TheBestModelIsKeptBesideTheLast) {
    size_t best = 0, last = 0;
    std::vector<double> losses;
    for (int seed = 1; seed <= 8 && best == last; ++seed) {  // until the best is not the last one
        ASSERT_EQ("", failure(train("--epochs 8 --lr 2 --overwrite --seed " + std::to_string(seed))));
        const std::vector<double> accuracies = column(run_, "eval/accuracy");
        losses = column(run_, "eval/loss");
        last = accuracies.size() - 1;
        best = size_t(std::max_element(accuracies.begin(), accuracies.end()) - accuracies.begin());
    }
    ASSERT_LT(best, last) << "this test wants a training that gets worse";
    for (const auto& [file, row] : {std::pair{"model-best.h5", best}, {"model.h5", last}}) {
        EXPECT_NEAR(loss_of(parameters_of(run_ + "/" + file), samples("test")), losses[row], 1e-5 * losses[row])
            << file;
        const Finished f = launch(1, "evaluate --model-file " + run_ + "/" + file + " --data " + data_);
        ASSERT_EQ("", failure(f));
        EXPECT_NEAR(score_of(f.out).loss, losses[row], 5.1e-5 * std::max(1.0, losses[row])) << file;
    }
    // The newest checkpoint and the best one are kept: each is the model at its step.
    for (const size_t row : {best, last}) {
        char name[64];
        std::snprintf(name, sizeof name, "/checkpoints/step-%012d.h5", int(row + 1));  // an epoch is one step
        const Finished f = launch(2, "evaluate --model-file " + run_ + name + " --data " + data_);
        ASSERT_EQ("", failure(f));
        EXPECT_NEAR(score_of(f.out).loss, losses[row], 5.1e-5 * std::max(1.0, losses[row])) << name;
    }
}

}  // namespace
}  // namespace convoy::test
