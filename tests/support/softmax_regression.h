// Softmax regression in double precision. End-to-end tests of mnist-linear compare weights, losses
// and counts with it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy::test {

constexpr int regression_classes = 10;

/// One split of a data set of grey images.
struct RegressionSamples {
    size_t features = 0;      ///< pixels per image
    std::vector<double> x;    ///< [images][features], normalised
    std::vector<int> labels;  ///< [images]
    size_t size() const { return labels.size(); }
};
/// Returns samples whose inputs are (value / 255 - mean) / stddev.
RegressionSamples normalised(const std::vector<uint8_t>& pixels, const std::vector<int>& labels, double mean,
                             double stddev);
/// Reads the shards of `split` in `dir`.
RegressionSamples samples_of(const std::string& dir, const std::string& split, double mean, double stddev);

/// All parameters of the model: the weights [classes][features], then the biases [classes].
using Parameters = std::vector<double>;
/// Reads a model file of mnist-linear.
Parameters parameters_of(const std::string& model_file);

/// Returns the mean cross-entropy. `smoothing` is the share of each label that is spread over all
/// classes.
double loss_of(const Parameters&, const RegressionSamples&, double smoothing = 0);
/// Counts images whose largest logit is that of their label.
int correct_of(const Parameters&, const RegressionSamples&);
/// Returns the gradient of loss_of.
Parameters gradient_of(const Parameters&, const RegressionSamples&, double smoothing = 0);

}  // namespace convoy::test
