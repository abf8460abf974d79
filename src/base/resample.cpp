#include "base/resample.h"

#include <algorithm>

namespace convoy {

void Resampler::begin(const uint8_t* image, int width, int channels, const Resampling& what, int out_columns) {
    image_ = image;
    width_ = width;
    channels_ = channels;
    what_ = what;
    line_.resize(size_t(what.width) * size_t(channels));
    taps_.clear();
    weights_.clear();
    for (int j = 0; j < out_columns; ++j) {
        const int column = what.x + (what.mirror ? out_columns - 1 - j : j);
        taps_.push_back(taps_of(column, what.columns, what.width));
        for (int k = 0; k < taps_.back().count; ++k) weights_.push_back(taps_.back().weight(k));
    }
}

void Resampler::row(int i, float* to) {
    const Taps rows = taps_of(what_.y + i, what_.rows, what_.height);
    std::fill(line_.begin(), line_.end(), 0.0f);
    for (int k = 0; k < rows.count; ++k) {
        const int64_t row = what_.top + rows.first + k;
        const uint8_t* from = image_ + (row * width_ + what_.left) * channels_;
        const float weight = rows.weight(k);
        for (size_t at = 0; at < line_.size(); ++at) line_[at] += weight * float(from[at]);
    }
    const float* weight = weights_.data();
    for (const Taps& columns : taps_) {
        const float* from = line_.data() + size_t(columns.first) * size_t(channels_);
        for (int c = 0; c < channels_; ++c) {
            to[c] = 0;
            for (int k = 0; k < columns.count; ++k) to[c] += weight[k] * from[k * channels_ + c];
        }
        weight += columns.count;
        to += channels_;
    }
}

}  // namespace convoy
