// Counts of an evaluation, compared with counts that the test computes from the weights.
#include "train/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

/// Keeps the results.
class Results final : public QuietListener {
public:
    void on_eval(int64_t, int64_t, const EvalResult& result, bool) override { all.push_back(result); }
    std::vector<EvalResult> all;
};

// 31 images in batches of 10, the last of one.
TEST(EvaluatorResults, AreThoseOfTheWeights) {
    cpu::CpuBackend backend({1, false}, test_comm());
    const Samples train = draw_samples(30, 21), test = draw_samples(31, 22);
    Training training(backend, linear_graph(), train, &test, plain_setup(10, 1));
    Results results;
    training.trainer.run(results);
    ASSERT_EQ(results.all.size(), 1u);
    const std::vector<float> weight = training.tensor("fc.weight"), bias = training.tensor("fc.bias");
    int correct = 0, top5 = 0;
    double loss = 0;
    for (int i = 0; i < test.count(); ++i) {
        double logits[Samples::classes], sum = 0;
        for (int k = 0; k < Samples::classes; ++k) {
            logits[k] = bias[k];
            for (int c = 0; c < Samples::channels; ++c)
                logits[k] += double(weight[k * Samples::channels + c]) * test.input(i, c);
            sum += std::exp(logits[k]);
        }
        const double of_label = logits[test.labels[i]];
        int better = 0;
        for (const double logit : logits) better += logit > of_label;
        correct += better == 0;
        top5 += better < 5;
        loss += std::log(sum) - of_label;
    }
    const EvalResult& r = results.all[0];
    EXPECT_EQ(r.images, 31);
    EXPECT_EQ(r.correct, correct);
    EXPECT_DOUBLE_EQ(r.accuracy, correct / 31.0);
    EXPECT_DOUBLE_EQ(r.top5_accuracy, top5 / 31.0);
    EXPECT_GT(top5, correct) << "or nothing tells them apart";
    EXPECT_NEAR(r.loss, loss / 31, 1e-5);
}

}  // namespace
}  // namespace convoy::test
