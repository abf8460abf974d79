// Analyses the mistakes of a trained model on labelled images: counts by class, the calibration of
// its probabilities, and the most confident mistakes.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace convoy {

struct ShareInterval {
    double low, high;  ///< fractions, 0 to 1
};
/// Returns Wilson's 95 % score interval of a share, from `hits` in `trials` (E. B. Wilson, 1927).
/// It is [0, 1] without trials.
ShareInterval wilson_interval(int64_t hits, int64_t trials);

/// Images whose confidence, the probability of the predicted class, lies in one interval.
struct ReliabilityBin {
    int64_t images = 0, correct = 0;
    double confidence = 0;  ///< sum over the images
};

struct Mistake {
    int64_t image;  ///< index in the split
    int label, predicted;
    double confidence;    ///< probability of the predicted class
    double of_the_label;  ///< probability of the label
};

class ErrorAnalysis {
public:
    static constexpr int bin_count = 15;  ///< as in Guo et al., 2017
    static constexpr size_t usual_mistakes = 25;

    /// Keeps up to `most_mistakes` mistakes.
    explicit ErrorAnalysis(int classes, size_t most_mistakes = usual_mistakes);

    /// Adds an image. `logits` has one value per class. If logits are equal, the class with the
    /// lower index comes first. Throws Exit::bad_input for a logit that is not finite.
    void add(int64_t image, std::span<const float> logits, int label);

    int classes() const { return classes_; }
    int64_t images() const { return images_; }
    /// Return the numbers of images whose label has the largest logit, or one of the five largest.
    int64_t correct() const { return correct_; }
    int64_t correct_in_five() const { return correct_in_five_; }
    /// Returns the mean cross-entropy; NaN without images.
    double loss() const;
    /// Returns the number of images of class `label` that were predicted as `predicted`.
    int64_t count(int label, int predicted) const;
    int64_t images_of(int label) const { return images_of_[label]; }
    int64_t predicted_as(int predicted) const { return predicted_as_[predicted]; }
    /// Returns the pairs of label and predicted class that occurred, with their numbers of images.
    /// Memory is in proportion to the images, not to the square of the classes.
    const std::map<std::pair<int, int>, int64_t>& pairs() const { return pairs_; }
    /// Returns bins of equal width; bin i has confidences in (i / 15, (i + 1) / 15].
    const std::vector<ReliabilityBin>& bins() const { return bins_; }
    /// Returns the expected calibration error: the mean difference between confidence and accuracy
    /// of a bin, weighted by its images.
    double calibration_error() const;
    /// Returns the mistakes, the most confident first. If confidences are equal, the earlier image
    /// comes first.
    const std::vector<Mistake>& mistakes() const { return mistakes_; }

private:
    void keep(const Mistake&);

    const int classes_;
    const size_t most_mistakes_;
    int64_t images_ = 0, correct_ = 0, correct_in_five_ = 0;
    double loss_sum_ = 0;
    std::map<std::pair<int, int>, int64_t> pairs_;
    std::vector<int64_t> images_of_, predicted_as_;  // [classes]
    std::vector<ReliabilityBin> bins_;
    std::vector<Mistake> mistakes_;
};

/// The images of one class that were predicted as another one.
struct Confusion {
    int label, predicted;
    int64_t images;
};
/// Returns the confusions with the most images, largest first, at most `most` of them.
std::vector<Confusion> largest_confusions(const ErrorAnalysis&, size_t most);

}  // namespace convoy
