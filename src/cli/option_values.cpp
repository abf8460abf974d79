#include "cli/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/shorten.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "train/trainer.h"

namespace convoy {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& text, const std::string& why) {
    fail(Exit::usage, "--" + option + " " + text + ": " + why);
}

}  // namespace

NumberList parse_numbers(const std::string& option, const std::string& text) {
    NumberList list{text};
    for (const std::string& item : split(text, ',')) {
        size_t used = 0;
        double v = 0;
        try {
            v = std::stod(item, &used);
        } catch (const std::exception&) {
            used = std::string::npos;
        }
        if (used != item.size() || !std::isfinite(v))
            refuse(option, text, "'" + item + "' is not a number; write numbers separated by commas");
        list.values.push_back(v);
    }
    return list;
}

std::vector<double> parse_milestones(const std::string& option, const std::string& text) {
    return parse_numbers(option, text).values;
}

NumberList parse_deviations(const std::string& option, const std::string& text) {
    NumberList list = parse_numbers(option, text);
    for (double v : list.values) {
        if (v >= 1e-6 && v <= 1e6) continue;
        std::ostringstream message;
        message << "--" << option << " " << v << ": must be from " << 1e-6 << " to " << 1e6;
        fail(Exit::usage, message.str());
    }
    return list;
}

namespace {

std::pair<float, float> parse_interval(const std::string& option, const std::string& text, double least, double most) {
    const std::vector<double> values = parse_numbers(option, text).values;
    const auto in_range = [&](double v) { return v >= least && v <= most; };
    if (values.size() != 2 || !in_range(values[0]) || !in_range(values[1]) || values[0] > values[1])
        refuse(option, text, formatted("write two numbers from %g to %g, the smaller one first", least, most));
    return {float(values[0]), float(values[1])};
}

}  // namespace

void parse_crop_scale(const std::string& option, const std::string& text, Augment& to) {
    std::tie(to.scale_low, to.scale_high) = parse_interval(option, text, 1e-4, 1);
}

void parse_crop_ratio(const std::string& option, const std::string& text, Augment& to) {
    std::tie(to.ratio_low, to.ratio_high) = parse_interval(option, text, 0.01, 100);
}

double parse_mixing(const std::string& option, const std::string& text) {
    const std::vector<double> values = parse_numbers(option, text).values;
    if (values.size() != 1 || (values[0] != 0 && (values[0] < 0.01 || values[0] > 1)))
        refuse(option, text, "write a number from 0.01 to 1, or 0 for none");
    return values[0];
}

void parse_jitter(const std::string& option, const std::string& text, Augment& to) {
    constexpr double most[4] = {10, 10, 10, 0.5};
    std::vector<double> values = parse_numbers(option, text).values;
    bool allowed = !values.empty() && values.size() <= 4 && text.back() != ',';
    values.resize(4);
    for (size_t i = 0; i < 4; ++i) allowed = allowed && values[i] >= 0 && values[i] <= most[i];
    if (!allowed)
        refuse(option, text,
               "write brightness, contrast, saturation and hue, as in 0.4,0.4,0.4,0.1: up to four numbers from 0 to "
               "10, hue to 0.5; 0 for none");
    float* const fields[4] = {&to.brightness, &to.contrast, &to.saturation, &to.hue};
    for (size_t i = 0; i < 4; ++i) *fields[i] = float(values[i]);
}

ImageSize parse_image_side(const std::string& option, const std::string& text) {
    ImageSize size{text};
    if (text.empty()) return size;
    int height = 0, width = 0, read = 0;
    if (std::sscanf(text.c_str(), "%4dx%4d%n", &height, &width, &read) == 2 && size_t(read) == text.size()) {
        if (height != width || height < 1 || height > 4096)
            refuse(option, text, "the model sees squares; write one side in pixels, from 1 to 4096, as in 224");
        size.side = height;
        return size;
    }
    if (text.find('x') != std::string::npos) {
        size.images = parse_image_size(option, text);
        return size;
    }
    constexpr const char* what =
        "write the side of a square in pixels, from 1 to 4096, or several with the epochs at which they begin, as in "
        "160:0,192:10,224:20";
    if (text.back() == ',') refuse(option, text, what);
    constexpr ptrdiff_t most = 100;  // each size has a program with its own launches
    if (std::count(text.begin(), text.end(), ',') >= most) refuse(option, shortened(text), "give at most 100 sizes");
    int64_t begun = -1;
    for (const std::string& item : split(text, ',')) {
        int side = 0, end = 0;
        long long epoch = 0;
        const bool alone = item == text && std::sscanf(item.c_str(), "%5d%n", &side, &end) == 1;
        const bool whole = alone && size_t(end) == item.size();
        if (!whole &&
            (std::sscanf(item.c_str(), "%5d:%9lld%n", &side, &epoch, &end) != 2 || size_t(end) != item.size()))
            refuse(option, text, what);
        if (side < 1 || side > 4096 || epoch <= begun || (begun < 0 && epoch != 0)) refuse(option, text, what);
        if (begun >= 0) size.earlier.emplace_back(size.side, epoch);
        size.side = side;
        begun = epoch;
    }
    return size;
}

double parse_tuning(const std::string& option, const std::string& text) {
    if (text == "full") return INFINITY;
    if (text == "quick") return 0;
    char* end = nullptr;
    double seconds = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end) seconds = parse_duration(text).value_or(-1);
    if (!(seconds >= 0 && seconds <= longest_duration))
        refuse(option, text, "write full, quick, or a time to 8760h, as in 90s, 5m or 90 (seconds)");
    return seconds;
}

std::vector<int> parse_devices(const std::string& option, const std::string& text) {
    constexpr double most = 1024;
    std::vector<int> devices;
    for (double d : parse_numbers(option, text).values) {
        if (d < 0 || d != std::floor(d) || d > most)
            refuse(option, text, "write device numbers separated by commas, as in 0,1");
        devices.push_back(int(d));
    }
    return devices;
}

ResumeFrom parse_resume(const std::string& option, const std::string& text) {
    if (text.empty()) fail(Exit::usage, "--" + option + " is empty; choose none, auto or a checkpoint file");
    if (text == "none") return {};
    if (text == "auto") return {.newest = true};
    return {.file = text};
}

void parse_checkpoint_clock(const std::string& option, const std::string& text, TrainSetup& to) {
    to.checkpoint_steps = to.checkpoint_epochs = 0;
    to.checkpoint_seconds = 0;
    to.checkpoint_at_end = text != "none";
    if (text == "none") return;
    char* end = nullptr;
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    const std::string unit = end;
    if (end != text.c_str() && whole > 0 && unit.empty()) {
        to.checkpoint_steps = whole;
    } else if (end != text.c_str() && whole > 0 && unit == "e") {
        to.checkpoint_epochs = whole;
    } else {
        to.checkpoint_seconds = parse_duration(text).value_or(0);
        if (to.checkpoint_seconds <= 0)
            refuse(option, text, "write 500 (steps), 10m or 1h30m (time, to 8760h), 2e (epochs), or none");
    }
}

int64_t parse_audit(const std::string& option, const std::string& text) {
    if (text == "none") return 0;
    constexpr int64_t most = 1'000'000'000;
    int64_t every = 0;
    const char* const end = text.data() + text.size();
    const bool share = text.starts_with("1/") && std::from_chars(text.data() + 2, end, every).ptr == end;
    if (!share || every < 1 || every > most)
        refuse(option, text, "write 1/50 for every 50th step, up to 1/1000000000, or none");
    return every;
}

double parse_time_limit(const std::string& option, const std::string& text) {
    if (text.empty()) return 0;
    const double seconds = parse_duration(text).value_or(0);
    if (seconds <= 0) refuse(option, text, "write a time to 8760h, as in 1h50m, 90m or 300s");
    return seconds;
}

double parse_watchdog(const std::string& option, const std::string& text) {
    if (text == "none") return 0;
    const double seconds = parse_duration(text).value_or(0);
    if (seconds < 1) refuse(option, text, "write a time from 1s to 8760h, as in 300s or 10m, or none");
    return seconds;
}

double parse_publish_every(const std::string& option, const std::string& text) {
    constexpr double day = 86400;
    const double seconds = parse_duration(text).value_or(0);
    if (seconds <= 0 || seconds > day) refuse(option, text, "write a time of at most 24h, as in 5s or 1m");
    return seconds;
}

namespace {

/// Parses a number from 0 to `most`; returns nothing for auto.
std::optional<double> parse_number_or_auto(const std::string& option, const std::string& text, double most,
                                           const std::string& allowed) {
    if (text == "auto") return std::nullopt;
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end || !std::isfinite(number) || number < 0 || number > most)
        refuse(option, text, allowed);
    return number;
}

}  // namespace

std::optional<GivenRate> parse_rate(const std::string& option, const std::string& text) {
    const std::string allowed = "must be one number from 0, one for a global batch as in 0.1@256, or auto";
    const size_t at = text.find('@');
    const std::optional<double> rate = parse_number_or_auto(option, text.substr(0, at), HUGE_VAL, allowed);
    if (at == std::string::npos) return rate ? std::optional(GivenRate{*rate}) : std::nullopt;
    int64_t batch = 0;
    const auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), batch);
    if (!rate || error != std::errc() || end != text.data() + text.size() || batch < 1) refuse(option, text, allowed);
    return GivenRate{*rate, batch};
}

std::optional<double> parse_warmup(const std::string& option, const std::string& text) {
    return parse_number_or_auto(option, text, 1e9, "must be epochs from 0 to 1e9, or auto");
}

void parse_rate_points(const std::string& option, const std::string& text, Schedule& to) {
    to.points.clear();
    for (const std::string& item : split(text, ',')) {
        const size_t colon = item.find(':');
        if (colon == std::string::npos || colon == 0 || colon + 1 == item.size())
            refuse(option, text, "write epoch:factor pairs, as in 0:0.2,2:1,10:0");
        const bool share = item[colon - 1] == '%';
        if (share != to.points_of_run && !to.points.empty()) refuse(option, text, "write epochs or percent, not both");
        to.points_of_run = share;
        const std::vector<double> at = parse_numbers(option, item.substr(0, share ? colon - 1 : colon)).values;
        if (at.size() != 1) refuse(option, text, "a % has no number before it");
        const double place = share ? at[0] / 100 : at[0];
        if (!to.points.empty() && place <= to.points.back().first) refuse(option, text, "epochs must rise");
        to.points.emplace_back(place, parse_numbers(option, item.substr(colon + 1)).values.at(0));
    }
}

}  // namespace convoy
