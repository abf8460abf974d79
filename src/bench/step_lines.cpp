#include "bench/step_lines.h"

#include <cmath>
#include <numeric>

#include "base/quantile.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr int64_t display_every = 10;  // steps

double mean_of(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

/// Returns the standard deviation with n in the denominator, not n - 1.
double deviation_of(const std::vector<double>& values) {
    const double mean = mean_of(values);
    double squares = 0;
    for (const double v : values) squares += (v - mean) * (v - mean);
    return std::sqrt(squares / double(values.size()));
}

double median_deviation_of(std::vector<double> values) {
    const double middle = median(values);
    for (double& v : values) v = std::fabs(v - middle);
    return median(values);
}

std::string tf_cnn_line(const std::vector<double>& seconds, double batch, double loss) {
    std::vector<double> rates;
    for (const double s : seconds) rates.push_back(batch / s);
    return formatted("%zu\timages/sec: %.1f +/- %.1f (jitter = %.1f)\t%.3f\n", seconds.size(), batch / mean_of(seconds),
                     deviation_of(rates) / std::sqrt(double(rates.size())), 1.4826 * median_deviation_of(rates),
                     std::isnan(loss) ? std::fabs(loss) : loss);
}

}  // namespace

std::string tf_cnn_text(const BenchResult& r, const std::vector<TrainRow>& steps) {
    std::string text = formatted("Model:       %s\n", r.model.c_str());
    text += r.data == "synthetic" ? formatted("Dataset:     %s (synthetic)\n", r.image_size.c_str())
                                  : formatted("Dataset:     %s\n", r.data.c_str());
    text += "Mode:        training\n";
    text += formatted("Batch size:  %lld global\n", (long long)r.global_batch);
    text += formatted("             %lld per device\n", (long long)r.batch_per_rank);
    text += formatted("Num batches: %zu\n", steps.size());
    text += "==========\nRunning warm up\nDone warm up\nStep\tImg/sec\tbase_loss\n";
    std::vector<double> seconds;
    for (const TrainRow& step : steps) {
        seconds.push_back(step.step_seconds);
        if (seconds.size() == 1 || seconds.size() % display_every == 0)
            text += tf_cnn_line(seconds, double(r.batch_per_rank), step.loss);
    }
    const std::string rule = std::string(64, '-') + "\n";
    return text + rule + formatted("total images/sec: %.2f\n", r.images_per_second_wall) + rule;
}

std::string horovod_text(const BenchResult& r, const std::vector<TrainRow>& steps) {
    const char* device = r.device_kind == "gpu" ? "GPU" : "CPU";
    std::string text = formatted("Model: %s\n", r.model.c_str());
    text += formatted("Batch size: %lld\n", (long long)r.batch_per_rank);
    text += formatted("Number of %ss: %lld\n", device, (long long)r.ranks);
    text += "Running warmup...\nRunning benchmark...\n";
    std::vector<double> rates;
    for (size_t begin = 0; begin + horovod_steps <= steps.size(); begin += horovod_steps) {
        double seconds = 0;
        for (size_t i = begin; i < begin + horovod_steps; ++i) seconds += steps[i].step_seconds;
        rates.push_back(double(r.batch_per_rank * horovod_steps) / seconds);
        text += formatted("Iter #%zu: %.1f img/sec per %s\n", rates.size() - 1, rates.back(), device);
    }
    const double mean = mean_of(rates), confidence = 1.96 * deviation_of(rates), ranks = double(r.ranks);
    text += formatted("Img/sec per %s: %.1f +-%.1f\n", device, mean, confidence);
    return text + formatted("Total img/sec on %lld %s(s): %.1f +-%.1f\n", (long long)r.ranks, device, ranks * mean,
                            ranks * confidence);
}

}  // namespace convoy
