// Converts the texts of options that are neither a number nor one of a few words. Each function
// takes the option's name and its text, and throws Exit::usage.
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

/// Numbers separated by commas; an empty text gives none.
struct NumberList {
    std::string text;  ///< as it was written, for messages
    std::vector<double> values{};
};
NumberList parse_numbers(const std::string& option, const std::string& text);
std::vector<double> parse_milestones(const std::string& option, const std::string& text);
/// Parses divisors: numbers as parse_numbers() does, each from 1e-6 to 1e6.
NumberList parse_deviations(const std::string& option, const std::string& text);
/// Parses the range of a crop's share of the image's area, as in 0.08,1: each from 1e-4 to 1.
void parse_crop_scale(const std::string& option, const std::string& text, Augment&);
/// Parses the range of a crop's width over its height, from 0.01 to 100, as in 0.75,1.3333.
void parse_crop_ratio(const std::string& option, const std::string& text, Augment&);
/// Returns the alpha of the Beta distribution for mixing images, from 0.01 to 1; 0: images are not
/// mixed.
double parse_mixing(const std::string& option, const std::string& text);
/// Parses brightness, contrast, saturation and hue, as in 0.4,0.4,0.4. Missing numbers are 0.
void parse_jitter(const std::string& option, const std::string& text, Augment&);
/// The part of each image that the model sees. If `text` is empty, it is the whole image.
struct ImageSize {
    std::string text{};  ///< the option as the user wrote it
    int side = 0;        ///< side of a square in pixels, at the end of the training and in evaluations
    /// earlier sides, as (side, epoch at which it ends, counted from 0): 160:0,192:10,224:20
    /// gives (160, 10), (192, 20)
    std::vector<std::pair<int, int64_t>> earlier{};
    Shape images{0, 0, 0, 0};  ///< size of synthetic images, as in 32x32x3
};
ImageSize parse_image_side(const std::string& option, const std::string& text);
/// Returns seconds: infinite for "full", 0 for "quick".
double parse_tuning(const std::string& option, const std::string& text);
/// Returns device numbers, counted from 0.
std::vector<int> parse_devices(const std::string& option, const std::string& text);

/// The point from which a training resumes; nothing set: it starts a new run.
struct ResumeFrom {
    bool newest = false;  ///< from the newest intact checkpoint in the run folder
    std::string file{};   ///< from this checkpoint
};
ResumeFrom parse_resume(const std::string& option, const std::string& text);

/// Parses when checkpoints are taken. Sets one of the intervals, or none.
void parse_checkpoint_clock(const std::string& option, const std::string& text, TrainSetup&);

/// Returns the N of --audit 1/N; 0 for none.
int64_t parse_audit(const std::string& option, const std::string& text);

// These return seconds; 0: no limit, or no watchdog.
double parse_time_limit(const std::string& option, const std::string& text);
double parse_watchdog(const std::string& option, const std::string& text);
double parse_publish_every(const std::string& option, const std::string& text);

/// The value of --lr: a rate, alone or for a global batch. In the second case it changes in
/// proportion to the batch.
struct GivenRate {
    double rate;
    int64_t batch = 0;  ///< the batch for which `rate` is given; 0: for any batch
    double at(int64_t global_batch) const { return batch > 0 ? rate * double(global_batch) / double(batch) : rate; }
};
/// Parses --lr; returns nothing for auto.
std::optional<GivenRate> parse_rate(const std::string& option, const std::string& text);
/// Parses --warmup-epochs; returns nothing for auto.
std::optional<double> parse_warmup(const std::string& option, const std::string& text);
/// Parses --lr-points: (epoch, factor), or (share of the run, factor).
void parse_rate_points(const std::string& option, const std::string& text, Schedule&);

}  // namespace convoy
