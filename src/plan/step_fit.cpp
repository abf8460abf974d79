#include "plan/step_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/quantile.h"
#include "base/text.h"

namespace convoy {
namespace {

/// Returns the x in [low, high] at which a rising function reaches `wanted`, or the nearer end if
/// there is none.
double where(const std::function<double(double)>& rising, double low, double high, double wanted) {
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (rising(middle) < wanted ? low : high) = middle;
    }
    return (low + high) / 2;
}

double step_of(const StepModel& m, StepWork work, const Cluster& c, const MeasuredStep& s) {
    work.batch = s.batch;
    Cluster cluster = c;
    cluster.ranks_per_node = (s.ranks + s.nodes - 1) / s.nodes;  // as in the measured run
    return predict_step(m, work, cluster, s.ranks).step;
}

/// Returns the seconds per step of one rank at which the model predicts the measured step.
double alone(StepModel m, const StepWork& work, Cluster c, const MeasuredStep& s) {
    m.alone = {};
    c.images_per_second = 0;  // input never limits; if it limited the measured step, the result is an upper bound
    const auto step = [&](double seconds) {
        m.alone.measured[s.batch] = seconds;
        return step_of(m, work, c, s);
    };
    return where(step, 0, s.seconds, s.seconds);
}

struct Point {
    double batch, seconds;
};

/// Sets the line by least squares; neither of its terms is negative.
void set_line(StepTimes& times, const std::vector<Point>& points) {
    double n = double(points.size()), x = 0, y = 0, xx = 0, xy = 0, ratio = 0;
    for (const Point& p : points) {
        x += p.batch / n;
        y += p.seconds / n;
        xx += p.batch * p.batch / n;
        xy += p.batch * p.seconds / n;
        ratio += p.seconds / p.batch / n;
    }
    const double variance = xx - x * x;
    times.per_sample = variance > 0 ? (xy - x * y) / variance : ratio;
    times.fixed = y - times.per_sample * x;
    if (variance <= 0 || times.fixed < 0) times = {.fixed = 0, .per_sample = ratio};
    if (times.per_sample < 0) times = {.fixed = y, .per_sample = 0};  // a falling line is taken as constant
}

int64_t batches_of(const std::vector<MeasuredStep>& steps) {
    std::set<int64_t> batches;
    for (const MeasuredStep& s : steps) batches.insert(s.batch);
    return int64_t(batches.size());
}

class Fit {
public:
    Fit(const std::vector<MeasuredStep>& steps, const StepWork& work, const Cluster& cluster)
        : steps_(steps), work_(work), cluster_(cluster) {
        fit_.model = usual_factors();
        fit_spread();
        fit_times();
        for (int i = 0; i < 4; ++i) {  // repeated because interference slows the ranks of one node too
            fit_node();
            fit_network();
        }
    }
    FittedStep result() && { return std::move(fit_); }

private:
    StepModel& model() { return fit_.model; }

    void fit_spread() {
        std::vector<double> spreads;
        for (const MeasuredStep& s : steps_)
            if (std::isfinite(s.spread)) spreads.push_back(s.spread);
        if (!spreads.empty()) set(model().spread, median(spreads));
    }

    void fit_times() {
        const MeasuredStep& least = *std::min_element(steps_.begin(), steps_.end(),
                                                      [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
        const int fewest = least.ranks;
        std::vector<MeasuredStep> base;
        for (const MeasuredStep& s : steps_)
            if (s.ranks == fewest) base.push_back(s);
        if (batches_of(base) == 1 && batches_of(steps_) > 1 && fewest > 1) base = steps_;
        // a time that was measured on several ranks of a node includes their host loss
        model().ranks_of_times = (least.ranks + least.nodes - 1) / least.nodes;
        std::map<int64_t, std::vector<double>> of_batch;
        std::vector<Point> points;
        for (const MeasuredStep& s : base) {
            points.push_back({double(s.batch), alone(model(), work_, cluster_, s)});
            if (s.ranks == fewest) of_batch[s.batch].push_back(points.back().seconds);
        }
        set_line(model().alone, points);
        for (const auto& [batch, seconds] : of_batch) model().alone.measured[batch] = median(seconds);
        if (model().alone.per_sample == 0)
            fit_.assumed.emplace_back("measured steps take no longer with larger batches; all batches take as long");
        if (batches_of(base) == 1)
            fit_.assumed.push_back(
                formatted("only steps with batch %lld were measured; time is proportional to the batch",
                          (long long)base[0].batch));
        base_ = base;
    }

    bool used(const MeasuredStep& s) const {
        return std::any_of(base_.begin(), base_.end(),
                           [&](const MeasuredStep& b) { return b.ranks == s.ranks && b.batch == s.batch; });
    }

    void fit_node() {
        std::vector<double> losses;
        for (const MeasuredStep& s : steps_) {
            if (s.nodes > 1 || s.ranks <= model().ranks_of_times || used(s)) continue;
            const auto step = [&](double loss) {
                StepModel m = model();
                m.host_loss.value = loss;
                return step_of(m, work_, cluster_, s);
            };
            losses.push_back(where(step, 0, 4, s.seconds));
        }
        if (!losses.empty()) set(model().host_loss, median(losses));
    }

    void fit_network() {
        model().network_share = 1;
        std::vector<double> interferences, shares;
        for (const MeasuredStep& s : steps_) {
            if (s.nodes == 1) continue;
            model().network_measured = true;
            if (used(s)) continue;
            StepModel m = model();
            const auto step = [&](double interference) {
                m.interference.value = interference;
                return step_of(m, work_, cluster_, s);
            };
            interferences.push_back(where(step, 0, 1, s.seconds));
            m.interference.value = interferences.back();
            const auto slower = [&](double factor) {
                m.network_share = 1 / factor;
                return step_of(m, work_, cluster_, s);
            };
            shares.push_back(slower(1) < s.seconds * (1 - 1e-6) ? 1 / where(slower, 1, 100, s.seconds) : 1);
        }
        if (interferences.empty()) return;
        set(model().interference, median(interferences));
        model().network_share = median(shares);
    }

    static void set(Factor& f, double value) { f = {value, value, value}; }

    const std::vector<MeasuredStep>& steps_;
    const StepWork& work_;
    const Cluster& cluster_;
    std::vector<MeasuredStep> base_;  ///< the steps that the times of one rank were fitted to
    FittedStep fit_;
};

}  // namespace

StepModel usual_factors() {
    return {.alone = {}, .host_loss = {0.06, 0.01, 0.24}, .interference = {0.5, 0, 1}, .spread = {0.01, 0.005, 0.02}};
}

FittedStep fit_step(const std::vector<MeasuredStep>& steps, const StepWork& work, const Cluster& cluster) {
    if (steps.empty()) fail(Exit::usage, "no step was measured; give --step or --from");
    return Fit(steps, work, cluster).result();
}

}  // namespace convoy
