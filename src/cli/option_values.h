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

struct Augment;
struct Schedule;
struct TrainSetup;

/// Numbers separated by commas; none if the text is empty.
struct NumberList {
    std::string text;  ///< as it was written, for messages
    std::vector<double> values{};
};
NumberList parse_numbers(const std::string& option, const std::string& text);
std::vector<double> parse_milestones(const std::string& option, const std::string& text);
/// Parses numbers as parse_numbers() does, for divisors: from 1e-6 to 1e6.
NumberList parse_deviations(const std::string& option, const std::string& text);
/// Parses the range of a window's share of the area, as in 0.08,1: each above 0 and at most 1.
void parse_crop_scale(const std::string& option, const std::string& text, Augment&);
/// Parses the range of a window's width over height, from 0.01 to 100, as in 0.75,1.3333.
void parse_crop_ratio(const std::string& option, const std::string& text, Augment&);
/// The alpha of a Beta distribution that images are mixed by, from 0.01 to 1; 0: they are not.
double parse_mixing(const std::string& option, const std::string& text);
/// Parses up to four of brightness, contrast, saturation and hue, as in 0.4,0.4,0.4; 0: the others.
void parse_jitter(const std::string& option, const std::string& text, Augment&);
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

/// Parses when checkpoints are taken; sets one of the intervals, or none.
void parse_checkpoint_clock(const std::string& option, const std::string& text, TrainSetup&);

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
/// Parses --lr-points: (epoch, factor), or (share of the run, factor).
void parse_rate_points(const std::string& option, const std::string& text, Schedule&);

}  // namespace convoy
