// Texts of options that are neither a number nor one of a few words, as values. Each takes the
// option's name and its text, and throws Exit::usage.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace convoy {

/// Numbers separated by commas; none if the text is empty.
struct NumberList {
    std::string text;  ///< as it was written, for messages
    std::vector<double> values{};
};
NumberList parse_numbers(const std::string& option, const std::string& text);
std::vector<double> parse_milestones(const std::string& option, const std::string& text);
/// Parses numbers as parse_numbers() does, for divisors: from 1e-6 to 1e6.
NumberList parse_deviations(const std::string& option, const std::string& text);
/// From low to high.
struct Interval {
    double low, high;
};
/// Two shares of a whole, each above 0 and at most 1, as in 0.08,1.
Interval parse_shares(const std::string& option, const std::string& text);
/// Two ratios from 0.01 to 100, as in 0.75,1.3333.
Interval parse_ratios(const std::string& option, const std::string& text);
/// The alpha of a Beta distribution that images are mixed by, from 0.01 to 1; 0: they are not.
double parse_mixing(const std::string& option, const std::string& text);
/// How much the colours of an image may change, each as torchvision's ColorJitter has it; 0: not.
struct ColorJitter {
    double brightness = 0, contrast = 0, saturation = 0;  ///< factors from 1 less this to 1 more
    double hue = 0;                                       ///< turns, at most 1/2, either way
    bool on() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};
/// Up to four numbers in that order, as in 0.4,0.4,0.4; those that are missing are 0.
ColorJitter parse_jitter(const std::string& option, const std::string& text);
/// The part of each image that the model sees. Both empty: the whole image.
struct ImageSize {
    std::string text{};  ///< as it was written
    int side = 0;        ///< of a square, in pixels; at the end, and in evaluations
    /// Sides before that, each with the epoch, from 0, at which it ends; as in 160:0,192:10,224:20
    std::vector<std::pair<int, int64_t>> earlier{};
    Shape images{0, 0, 0, 0};  ///< of images that are to be made up, as in 32x32x3
};
ImageSize parse_image_side(const std::string& option, const std::string& text);
/// Seconds: of "full" endless, of "quick" none.
double parse_tuning(const std::string& option, const std::string& text);
/// Numbers of devices, from 0.
std::vector<int> parse_devices(const std::string& option, const std::string& text);

/// Where a training resumes; nothing set: it starts a new run.
struct ResumeFrom {
    bool newest = false;  ///< at the newest sound checkpoint in the run folder
    std::string file{};   ///< at this checkpoint
};
ResumeFrom parse_resume(const std::string& option, const std::string& text);

/// When checkpoints are taken; at most one is positive.
struct CheckpointClock {
    int64_t steps = 0, epochs = 0;
    double seconds = 0;
};
CheckpointClock parse_checkpoint_clock(const std::string& option, const std::string& text);

// Seconds. 0: no limit, no watchdog.
double parse_time_limit(const std::string& option, const std::string& text);
double parse_watchdog(const std::string& option, const std::string& text);
double parse_publish_every(const std::string& option, const std::string& text);

/// --lr: a rate, of a global batch if there is one: of another batch it is in proportion.
struct GivenRate {
    double rate;
    int64_t batch = 0;  ///< 0: of any batch
    double at(int64_t global_batch) const { return batch > 0 ? rate * double(global_batch) / double(batch) : rate; }
};
/// Parses --lr; returns nothing for auto.
std::optional<GivenRate> parse_rate(const std::string& option, const std::string& text);
/// --warmup-epochs: epochs; nothing for auto.
std::optional<double> parse_warmup(const std::string& option, const std::string& text);
/// --lr-points: (epoch, factor), or (share of the run, factor).
struct RatePoints {
    std::vector<std::pair<double, double>> points{};
    bool of_run = false;
};
RatePoints parse_rate_points(const std::string& option, const std::string& text);

}  // namespace convoy
