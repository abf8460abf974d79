#include "plan/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace convoy {

Schedule::Kind parse_schedule(const std::string& name) {
    const std::pair<const char*, Schedule::Kind> kinds[] = {{"constant", Schedule::constant}, {"step", Schedule::step},
                                                            {"multistep", Schedule::multistep}, {"cosine", Schedule::cosine},
                                                            {"linear", Schedule::linear}};
    for (const auto& [text, kind] : kinds)
        if (name == text) return kind;
    fail(Exit::usage, "--lr-schedule " + name + " is unknown; choose constant, step, multistep, cosine or linear");
}

namespace {

double piecewise_linear(const std::vector<std::pair<double, double>>& points, double epoch) {
    if (points.empty()) return 1;
    if (epoch <= points.front().first) return points.front().second;
    for (size_t i = 1; i < points.size(); ++i) {
        const auto [x0, y0] = points[i - 1];
        const auto [x1, y1] = points[i];
        if (epoch < x1) return y0 + (y1 - y0) * (epoch - x0) / (x1 - x0);
    }
    return points.back().second;
}

double factor(const Schedule& s, double epoch, double progress) {
    switch (s.kind) {
        case Schedule::constant: return 1;
        case Schedule::step: return std::pow(s.gamma, std::floor(epoch / s.step_epochs));
        case Schedule::multistep:
            return std::pow(s.gamma, double(std::count_if(s.milestones.begin(), s.milestones.end(), [&](double m) { return epoch >= m; })));
        case Schedule::cosine: return 0.5 * (1 + std::cos(M_PI * progress));
        case Schedule::linear: return piecewise_linear(s.points, epoch);
    }
    return 1;
}

}  // namespace

double learning_rate(const Schedule& s, int64_t step, int64_t steps_per_epoch, int64_t total) {
    const double epoch = double(step) / double(steps_per_epoch);
    const double warmup = s.warmup_epochs > 0 ? std::min(1.0, double(step + 1) / (s.warmup_epochs * double(steps_per_epoch))) : 1;
    return s.base * warmup * factor(s, epoch, double(step) / double(std::max<int64_t>(1, total)));
}

}  // namespace convoy
