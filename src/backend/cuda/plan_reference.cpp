#include "backend/cuda/plan_reference.h"

#include <algorithm>
#include <set>

#include "base/philox.h"

namespace convoy::cuda {
namespace {

constexpr double most_work = 3e7;  // multiplications for all samples of an output
constexpr size_t most_samples = 2000, least_samples = 8, most_channels = 4, rows_of_channel = 200;

/// Returns true for operands of one element per channel.
bool is_vector(Slot slot) { return slot >= Slot::scale; }

}  // namespace

DType operand_type(const PlanSpec& s, Slot slot) {
    if (!is_vector(slot)) return s.type;
    return s.normalise && (slot == Slot::scale || slot == Slot::bias) ? s.type : DType::f32;
}

PlanReference::PlanReference(const PlanSpec& spec) : s_(spec), channels_(size_t(spec.x.c)), block_(period) {
    // Multiples of 1/128 in [-1, 1).
    for (size_t i = 0; i < period; ++i) block_[i] = (float(philox(1, uint32_t(i), 0, 0, 0).word[0] & 255) - 128) / 128;
    if (s_.kind != PlanSpec::norm_gradient) return;
    // A gradient may rely on the mean and the deviation being those of x.
    for (size_t c = 0; c < channels_; ++c) {
        mean_.push_back(float(moments(c).mean));
        invstd_.push_back(float(1 / std::sqrt(moments(c).variance + double(s_.epsilon))));
    }
}

float PlanReference::input(Slot slot, size_t i) const {
    if (slot == Slot::mean && !mean_.empty()) return mean_[i];
    if (slot == Slot::invstd && !invstd_.empty()) return invstd_[i];
    const float v = block_[(i + 7919 * size_t(slot)) % period];
    return slot == Slot::invstd || slot == Slot::running_var ? std::abs(v) + 0.25f : v;
}

std::vector<Slot> PlanReference::outputs() const {
    using enum Slot;
    switch (s_.kind) {
        case PlanSpec::conv: return s_.statistics ? std::vector{y, Slot::sum, squares} : std::vector{y};
        case PlanSpec::conv_data_gradient: return s_.statistics ? std::vector{dx, dscale, dbias} : std::vector{dx};
        case PlanSpec::conv_weight_gradient: return {dweight};
        case PlanSpec::norm: return {y, mean, invstd, next_mean, next_var};
        case PlanSpec::norm_gradient: return {dx, dscale, dbias};
    }
    return {};
}

std::vector<size_t> PlanReference::samples(Slot slot) const {
    const size_t count = operand_bytes(s_, slot) / size_of(operand_type(s_, slot));
    std::set<size_t> chosen;
    if (is_vector(slot) || s_.is_norm()) {  // each channel takes a pass over its rows
        const size_t all = is_vector(slot) ? count : channels_, rows = count / all;
        for (size_t k = 0; k < most_channels; ++k)
            for (size_t r = 0; r < std::min(rows, rows_of_channel); ++r)
                chosen.insert(r * rows / std::min(rows, rows_of_channel) * all + k * (all - 1) / (most_channels - 1));
    } else {
        const double products = s_.flops() / 2 / double(count);
        const size_t number = std::clamp(size_t(most_work / products), least_samples, most_samples);
        for (size_t k = 0; k < number; ++k) chosen.insert(k * 11400714819323198485U % count);
        chosen.insert(count - 1);
    }
    return {chosen.begin(), chosen.end()};
}

PlanReference::Error PlanReference::error(const Output& got) const {
    Error worst;
    for (const Slot slot : outputs()) {
        double largest = 0, off = 0;
        for (const size_t i : samples(slot)) {
            const double want = expected(slot, i, got);
            if (std::isnan(want)) continue;
            const double d = std::abs(double(got(slot, i)) - want);
            largest = std::max(largest, std::abs(want));
            off = std::isnan(d) ? INFINITY : std::max(off, d);
        }
        const double relative = off == 0 ? 0 : off / largest;
        if (relative >= worst.relative) worst = {relative, slot};
    }
    return worst;
}

double PlanReference::expected(Slot slot, size_t i, const Output& got) const {
    const auto to_sum = s_.kind == PlanSpec::conv ? Slot::y : Slot::dx;
    const auto written = [&](size_t k) { return double(got(to_sum, k)); };
    switch (s_.kind) {
        case PlanSpec::conv:
            if (slot == Slot::sum) return sum(i, written);
            if (slot == Slot::squares) return sum(i, [&](size_t k) { return written(k) * written(k); });
            return conv(i);
        case PlanSpec::conv_data_gradient:
            if (slot == Slot::dbias) return sum(i, written);
            if (slot == Slot::dscale) return sum(i, [&](size_t k) { return written(k) * normalised(k); });
            return s_.statistics ? masked(data_gradient(i), i) : data_gradient(i);
        case PlanSpec::conv_weight_gradient: return weight_gradient(i);
        case PlanSpec::norm: return norm(slot, i);
        case PlanSpec::norm_gradient: return norm_gradient(slot, i);
    }
    return NAN;
}

double PlanReference::source(size_t i) const {
    const double x = double(input(Slot::x, i));
    if (!s_.normalise) return x;
    const size_t c = i % channels_;
    return std::max(x * double(input(Slot::scale, c)) + double(input(Slot::bias, c)), 0.0);
}

/// Returns y[i], the sum over the pixels of x that the kernel covers.
double PlanReference::conv(size_t i) const {
    const size_t out = i % size_t(s_.y.c), pixel = i / size_t(s_.y.c), n = pixel / (size_t(s_.y.h) * s_.y.w);
    const int row = int(pixel / s_.y.w % s_.y.h), column = int(pixel % s_.y.w);
    double sum = 0;
    for (int k = 0; k < s_.kernel * s_.kernel; ++k) {
        const int h = row * s_.stride - s_.pad + k / s_.kernel, w = column * s_.stride - s_.pad + k % s_.kernel;
        if (h < 0 || h >= s_.x.h || w < 0 || w >= s_.x.w) continue;
        const size_t from = ((n * s_.x.h + h) * s_.x.w + w) * channels_,
                     weight = (out * s_.kernel * s_.kernel + k) * channels_;
        for (size_t c = 0; c < channels_; ++c) sum += source(from + c) * double(input(Slot::weight, weight + c));
    }
    return sum;
}

/// Returns dx[i], the sum over the pixels of y whose kernel covers it.
double PlanReference::data_gradient(size_t i) const {
    const size_t in = i % channels_, pixel = i / channels_, n = pixel / (size_t(s_.x.h) * s_.x.w);
    const int row = int(pixel / s_.x.w % s_.x.h), column = int(pixel % s_.x.w), taps = s_.kernel * s_.kernel;
    double sum = s_.add ? double(input(Slot::residual, i)) : 0;
    for (int k = 0; k < taps; ++k) {
        const int h = row + s_.pad - k / s_.kernel, w = column + s_.pad - k % s_.kernel;
        if (h < 0 || h % s_.stride != 0 || h / s_.stride >= s_.y.h) continue;
        if (w < 0 || w % s_.stride != 0 || w / s_.stride >= s_.y.w) continue;
        const size_t from = ((n * s_.y.h + h / s_.stride) * s_.y.w + w / s_.stride) * s_.y.c;
        for (size_t o = 0; o < size_t(s_.y.c); ++o)
            sum += double(input(Slot::dy, from + o)) * double(input(Slot::weight, (o * taps + k) * channels_ + in));
    }
    return sum;
}

double PlanReference::weight_gradient(size_t i) const {
    const size_t in = i % channels_, taps = size_t(s_.kernel) * s_.kernel, out = i / channels_ / taps;
    const int tap = int(i / channels_ % taps);
    double sum = 0;
    for (int n = 0; n < s_.x.n; ++n)
        for (int row = 0; row < s_.y.h; ++row)
            for (int column = 0; column < s_.y.w; ++column) {
                const int h = row * s_.stride - s_.pad + tap / s_.kernel,
                          w = column * s_.stride - s_.pad + tap % s_.kernel;
                if (h < 0 || h >= s_.x.h || w < 0 || w >= s_.x.w) continue;
                sum += source(((size_t(n) * s_.x.h + h) * s_.x.w + w) * channels_ + in) *
                       double(input(Slot::dy, ((size_t(n) * s_.y.h + row) * s_.y.w + column) * s_.y.c + out));
            }
    return sum;
}

double PlanReference::sum(size_t channel, const std::function<double(size_t)>& of) const {
    const bool of_y = s_.kind == PlanSpec::conv;
    const size_t step = size_t(of_y ? s_.y.c : s_.x.c), end = of_y ? s_.y.count() : s_.x.count();
    double total = 0;
    for (size_t k = channel; k < end; k += step) total += of(k);
    return total;
}

const PlanReference::Moments& PlanReference::moments(size_t channel) const {
    if (const auto at = moments_.find(channel); at != moments_.end()) return at->second;
    const double rows = double(s_.x.pixels());
    const auto x = [&](size_t k) { return double(input(Slot::x, k)); };
    const double mean = sum(channel, x) / rows, square = sum(channel, [&](size_t k) { return x(k) * x(k); }) / rows;
    return moments_[channel] = {mean, square - mean * mean};
}

double PlanReference::norm(Slot slot, size_t i) const {
    const size_t c = i % channels_;
    const auto [mean, variance] = moments(c);
    const double rows = double(s_.x.pixels()), invstd = 1 / std::sqrt(variance + double(s_.epsilon));
    const auto moved = [&](Slot from, double to) {
        return double(input(from, c)) + double(s_.momentum) * (to - double(input(from, c)));
    };
    if (slot == Slot::mean) return mean;
    if (slot == Slot::invstd) return invstd;
    if (slot == Slot::next_mean) return moved(Slot::running_mean, mean);
    if (slot == Slot::next_var) return moved(Slot::running_var, variance * rows / (rows - 1));
    double y =
        (double(input(Slot::x, i)) - mean) * invstd * double(input(Slot::scale, c)) + double(input(Slot::bias, c));
    if (s_.add) y += double(input(Slot::residual, i));
    return s_.relu ? std::max(y, 0.0) : y;
}

double PlanReference::normalised(size_t i) const {
    const size_t c = i % channels_;
    return (double(input(Slot::x, i)) - double(input(Slot::mean, c))) * double(input(Slot::invstd, c));
}

double PlanReference::masked(double g, size_t i) const {
    constexpr double rounding = 1e-5;
    const double scaled = normalised(i) * double(input(Slot::scale, i % channels_)),
                 bias = double(input(Slot::bias, i % channels_));
    if (std::abs(scaled + bias) < rounding * (std::abs(scaled) + std::abs(bias))) return NAN;
    return scaled + bias > 0 ? g : 0;
}

const PlanReference::Sums& PlanReference::sums(size_t channel) const {
    if (const auto at = sums_.find(channel); at != sums_.end()) return at->second;
    const auto g = [&](size_t k) {
        const double dy = double(input(Slot::dy, k)), seen = s_.relu ? masked(dy, k) : dy;
        return std::isnan(seen) ? 0 : seen;
    };
    return sums_[channel] = {sum(channel, [&](size_t k) { return g(k) * normalised(k); }), sum(channel, g)};
}

double PlanReference::norm_gradient(Slot slot, size_t i) const {
    const size_t c = i % channels_;
    const auto [dscale, dbias] = sums(c);
    if (slot == Slot::dscale) return dscale;
    if (slot == Slot::dbias) return dbias;
    const double rows = double(s_.x.pixels()), dy = double(input(Slot::dy, i)), g = s_.relu ? masked(dy, i) : dy;
    return double(input(Slot::scale, c)) * double(input(Slot::invstd, c)) *
           (g - dbias / rows - normalised(i) * dscale / rows);
}

}  // namespace convoy::cuda
