// Implements softmax regression by its textbook formulas.
#include "tests/support/softmax_regression.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "data/shard.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

using Logits = std::vector<double>;  // [classes]

Logits logits_of(const Parameters& p, const RegressionSamples& samples, size_t image) {
    Logits z(regression_classes);
    for (size_t k = 0; k < z.size(); ++k) {
        z[k] = p[regression_classes * samples.features + k];
        for (size_t i = 0; i < samples.features; ++i)
            z[k] += p[k * samples.features + i] * samples.x[image * samples.features + i];
    }
    return z;
}

double log_sum_exp(const Logits& z) {
    double sum = 0;
    for (double v : z) sum += std::exp(v);
    return std::log(sum);
}

double target_of(int label, size_t k, double smoothing) {
    return smoothing / regression_classes + (int(k) == label ? 1 - smoothing : 0);
}

}  // namespace

RegressionSamples normalised(const std::vector<uint8_t>& pixels, const std::vector<int>& labels, double mean,
                             double stddev) {
    RegressionSamples s{pixels.size() / labels.size(), {}, labels};
    for (uint8_t v : pixels) s.x.push_back((v / 255.0 - mean) / stddev);
    return s;
}

RegressionSamples samples_of(const std::string& dir, const std::string& split, double mean, double stddev) {
    const SplitReader reader(dir, split);
    const SplitInfo& info = reader.info();
    std::vector<uint8_t> pixels(size_t(info.images * info.height * info.width * info.channels));
    std::vector<int32_t> labels(size_t(info.images));
    reader.read(0, info.images, pixels.data(), labels.data());
    return normalised(pixels, {labels.begin(), labels.end()}, mean, stddev);
}

Parameters parameters_of(const std::string& model_file) {
    const auto all = tensors(model_file);
    Parameters p;
    for (const char* name : {"fc.weight", "fc.bias"}) p.insert(p.end(), all.at(name).begin(), all.at(name).end());
    return p;
}

double loss_of(const Parameters& p, const RegressionSamples& samples, double smoothing) {
    double sum = 0;
    for (size_t n = 0; n < samples.size(); ++n) {
        const Logits z = logits_of(p, samples, n);
        for (size_t k = 0; k < z.size(); ++k)
            sum += target_of(samples.labels[n], k, smoothing) * (log_sum_exp(z) - z[k]);
    }
    return sum / double(samples.size());
}

int correct_of(const Parameters& p, const RegressionSamples& samples) {
    int correct = 0;
    for (size_t n = 0; n < samples.size(); ++n) {
        const Logits z = logits_of(p, samples, n);
        correct += std::max_element(z.begin(), z.end()) - z.begin() == samples.labels[n];
    }
    return correct;
}

Parameters gradient_of(const Parameters& p, const RegressionSamples& samples, double smoothing) {
    Parameters g(p.size());
    for (size_t n = 0; n < samples.size(); ++n) {
        const Logits z = logits_of(p, samples, n);
        const double lse = log_sum_exp(z);
        for (size_t k = 0; k < z.size(); ++k) {
            const double dz =
                (std::exp(z[k] - lse) - target_of(samples.labels[n], k, smoothing)) / double(samples.size());
            for (size_t i = 0; i < samples.features; ++i)
                g[k * samples.features + i] += dz * samples.x[n * samples.features + i];
            g[regression_classes * samples.features + k] += dz;
        }
    }
    return g;
}

}  // namespace convoy::test
