// Mixing against torchvision's CutMix and PyTorch's cross-entropy of mixed labels, as
// tests/golden/make_mixing.py wrote them.
#include <gtest/gtest.h>

#include "ops/mix.h"
#include "tests/golden/golden_file.h"
#include "tests/ops/op_harness.h"

namespace convoy::test {
namespace {

const std::string path = "tests/golden/mixing.h5";

template <class T> std::vector<T> as(const GoldenFile& file, const std::string& name) {
    std::vector<T> all;
    for (const double v : file.read(name).values) all.push_back(T(v));
    return all;
}

TEST(Mixing, BoxesAreTorchvisions) {
    const GoldenFile file(path);
    const std::vector<int> boxes = as<int>(file, "boxes");
    const Doubles shares = file.read("box_shares").values;
    ASSERT_EQ(boxes.size(), 42u * 8);
    for (size_t n = 0; n < shares.size() / 2; ++n) {
        const int* b = &boxes[8 * n];
        const Mix mix = cut_box(shares[2 * n], b[2], b[3], b[0], b[1]);
        EXPECT_EQ((std::vector<int>{mix.top, mix.left, mix.bottom, mix.right}), (std::vector<int>(b + 4, b + 8)))
            << "box " << n;
        EXPECT_FLOAT_EQ(mix.share, float(shares[2 * n + 1])) << "box " << n;
    }
}

class MixingOn : public testing::TestWithParam<std::string> {};

TEST_P(MixingOn, TheLossIsPyTorchs) {
    const std::unique_ptr<Backend> backend = make_test_backend(GetParam());
    const GoldenFile file(path);
    const std::vector<int32_t> labels = as<int32_t>(file, "labels"), partners = as<int32_t>(file, "partners");
    const int rows = int(labels.size());
    for (const int n : {0, 1}) {
        Graph g;
        g.classes = 10;
        g.values = {{"x", 1, 1, g.classes}};
        SoftmaxXent loss{0, n == 0 ? 0.0f : 0.1f};
        loss.sum = true;
        g.ops = {loss};
        OpHarness ops(*backend, g, rows);
        ops.set_value(0, as<float>(file, "logits"));
        ops.set_labels(labels);
        ops.set_mixed(partners, as<float>(file, "shares"));
        ops.forward();
        ops.backward();
        const double sum = file.read("loss_" + std::to_string(n)).values.at(0);
        EXPECT_NEAR(ops.stats().loss_sum, sum, sum * 1e-7);  // computed in double, kept as float
        const Doubles gradient = file.read("gradient_" + std::to_string(n)).values;
        const Floats got = ops.gradient(0);
        ASSERT_EQ(got.size(), gradient.size());
        // 0.1 as a float is off by 1.5e-9; the gradient is a float of at most 1
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], gradient[i], 7e-8) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(All, MixingOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
