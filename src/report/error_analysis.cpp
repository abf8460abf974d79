#include "report/error_analysis.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace convoy {

ShareInterval wilson_interval(int64_t hits, int64_t trials) {
    if (trials == 0) return {0, 1};
    constexpr double z = 1.959963984540054;  // 97.5 % quantile of the normal distribution
    const double n = double(trials), p = double(hits) / n, scale = 1 / (1 + z * z / n);
    const double middle = scale * (p + z * z / (2 * n));
    const double half = scale * z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

ErrorAnalysis::ErrorAnalysis(int classes, size_t most_mistakes)
    : classes_(classes),
      most_mistakes_(most_mistakes),
      images_of_(size_t(classes)),
      predicted_as_(size_t(classes)),
      bins_(bin_count) {}

void ErrorAnalysis::add(int64_t image, std::span<const float> logits, int label) {
    require(logits.size() == size_t(classes_) && label >= 0 && label < classes_, "logits and a label of the model");
    for (const float logit : logits)
        if (!std::isfinite(logit))
            fail(Exit::bad_input, "the model's output for image " + std::to_string(image) + " is not finite");
    const auto best = std::ranges::max_element(logits);
    const int predicted = int(best - logits.begin());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double(logit) - *best);
    const double of_the_label = std::exp(double(logits[label]) - *best) / sum, confidence = 1 / sum;
    loss_sum_ += std::log(sum) - (double(logits[label]) - *best);
    ++images_;
    ++pairs_[{label, predicted}];
    ++images_of_[label];
    ++predicted_as_[predicted];
    correct_ += predicted == label;
    int better = 0;
    for (int c = 0; c < classes_; ++c) better += logits[c] > logits[label] || (logits[c] == logits[label] && c < label);
    correct_in_five_ += better < 5;
    ReliabilityBin& bin = bins_[std::clamp(int(std::ceil(confidence * bin_count)) - 1, 0, bin_count - 1)];
    ++bin.images;
    bin.correct += predicted == label;
    bin.confidence += confidence;
    if (predicted != label) keep({image, label, predicted, confidence, of_the_label});
}

void ErrorAnalysis::keep(const Mistake& mistake) {
    const auto before = [](const Mistake& a, const Mistake& b) { return a.confidence > b.confidence; };
    mistakes_.insert(std::ranges::upper_bound(mistakes_, mistake, before), mistake);
    if (mistakes_.size() > most_mistakes_) mistakes_.pop_back();
}

double ErrorAnalysis::loss() const { return loss_sum_ / double(images_); }

int64_t ErrorAnalysis::count(int label, int predicted) const {
    const auto found = pairs_.find({label, predicted});
    return found == pairs_.end() ? 0 : found->second;
}

double ErrorAnalysis::calibration_error() const {
    double error = 0;
    for (const ReliabilityBin& bin : bins_) error += std::abs(bin.confidence - double(bin.correct));
    return error / double(images_);
}

std::vector<Confusion> largest_confusions(const ErrorAnalysis& a, size_t most) {
    std::vector<Confusion> all;
    for (const auto& [pair, images] : a.pairs())
        if (pair.first != pair.second) all.push_back({pair.first, pair.second, images});
    std::ranges::stable_sort(all, [](const Confusion& x, const Confusion& y) { return x.images > y.images; });
    if (all.size() > most) all.resize(most);
    return all;
}

}  // namespace convoy
