#include "plan/schedule.h"

#include <algorithm>
#include <cmath>

namespace convoy {

namespace {

/// Interpolates at `at`. `place` converts a point's first number to the unit of `at`.
template <class Place>
double piecewise_linear(const std::vector<std::pair<double, double>>& points, double at, Place place) {
    if (points.empty()) return 1;
    if (at <= place(points.front().first)) return points.front().second;
    for (size_t i = 1; i < points.size(); ++i) {
        const double x0 = place(points[i - 1].first), x1 = place(points[i].first), y0 = points[i - 1].second,
                     y1 = points[i].second;
        if (at < x1) return y0 + (y1 - y0) * (at - x0) / (x1 - x0);
    }
    return points.back().second;
}

double factor(const Schedule& s, int64_t step, double epoch, int64_t total) {
    const double progress = double(step) / double(total);
    switch (s.kind) {
        case Schedule::constant: return 1;
        case Schedule::step: return std::pow(s.gamma, std::floor(epoch / s.step_epochs));
        case Schedule::multistep:
            return std::pow(s.gamma, double(std::count_if(s.milestones.begin(), s.milestones.end(),
                                                          [&](double m) { return epoch >= m; })));
        case Schedule::cosine: return 0.5 * (1 + std::cos(M_PI * progress));
        case Schedule::linear:
            if (!s.points_of_run) return piecewise_linear(s.points, epoch, [](double x) { return x; });
            return piecewise_linear(s.points, double(step),
                                    [total](double share) { return std::floor(share * double(total) + 1e-9); });
    }
    return 1;
}

}  // namespace

double learning_rate(const Schedule& s, int64_t step, int64_t steps_per_epoch, int64_t total) {
    const double epoch = double(step) / double(steps_per_epoch);
    const double warmup =
        s.warmup_epochs > 0 ? std::min(1.0, double(step + 1) / (s.warmup_epochs * double(steps_per_epoch))) : 1;
    return s.base * warmup * factor(s, step, epoch, std::max<int64_t>(1, total));
}

std::vector<float> look_ahead_decays(int64_t every, double decay, int64_t total) {
    std::vector<float> decays(size_t(total) + 1, -1.0f);
    if (every <= 0) return decays;
    decays.back() = 1;
    for (int64_t step = every; step <= total; step += every) {
        const double share = double(step) / double(total);
        decays[step] = float(std::pow(decay, double(every)) * share * share * share);
    }
    return decays;
}

}  // namespace convoy
