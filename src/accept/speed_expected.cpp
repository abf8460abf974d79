#include "accept/speed_expected.h"

#include <algorithm>

#include "base/quantile.h"
#include "base/text.h"
#include "report/expected.h"

namespace convoy {
namespace {

/// Returns the step model with the time of one rank: the cluster file's, or the measured one.
StepModel model_of(const SpeedCase& c, const Cluster& cluster, double seconds_alone) {
    for (const KnownStep& known : cluster.steps)
        if (known.model == c.model && known.precision == "f32")
            return model_of_known_step(known, build_model(c.options()).flops_per_image());
    StepModel model = usual_factors();
    model.alone.measured[c.batch] = seconds_alone;
    return model;
}

}  // namespace

SpeedExpectation expected_speed(const SpeedCase& c, const std::vector<RankSpeed>& ranks, const SpeedTogether& together,
                                int nodes, const Cluster& cluster) {
    std::vector<double> alone, beside;
    for (const RankSpeed& r : ranks) {
        alone.push_back(r.alone);
        beside.push_back(r.beside);
    }
    const double batch = double(c.batch), usual = batch / median(beside),
                 slowest = batch / *std::ranges::min_element(beside),
                 step = batch * double(ranks.size()) / together.images_per_second;
    Cluster as_here = cluster;
    as_here.ranks_per_node = int(ranks.size()) / nodes;
    as_here.images_per_second = 0;  // the images are in memory
    const StepWork work{.gradients = ready_gradients(build_model(c.options())), .batch = c.batch};
    const StepPrediction p =
        predict_step(model_of(c, cluster, batch / median(alone)), work, as_here, int(ranks.size()));
    return {.images_per_second = p.images_per_second,
            .compute = usual - (p.compute + p.fixed + p.node_loss),
            .slowest_rank = slowest - usual - p.noise,
            .input = together.data_seconds,
            .sums = step - slowest - together.data_seconds - (p.exposed + p.interference)};
}

void add_expectation(const SpeedExpectation& e, const SpeedTogether& together, const std::string& cluster,
                     LevelResult& r) {
    const double share = together.images_per_second / e.images_per_second;
    const std::tuple<const char*, const char*, double> terms[] = {
        {"excess_compute", "compute", e.compute},
        {"excess_sums", "sums", e.sums},
        {"excess_input", "input", e.input},
        {"excess_slowest_rank", "the slowest rank", e.slowest_rank}};
    r.add({.name = "expected", .unit = "images/s", .value = e.images_per_second});
    r.add({.name = "efficiency", .unit = "1", .value = share});
    const auto* worst = &terms[0];
    for (const auto& term : terms) {
        const auto& [name, words, seconds] = term;
        r.add({.name = name, .unit = "s", .value = seconds});
        r.details.push_back(
            formatted("a step spends %+.3g ms more on %s than %s predicts", 1e3 * seconds, words, cluster.c_str()));
        if (seconds > std::get<2>(*worst)) worst = &term;
    }
    r.figure +=
        formatted("; %.0f %% of the %.4g images/s that %s predicts", 100 * share, e.images_per_second, cluster.c_str());
    constexpr double enough = 0.9;
    if (!(share < enough)) return;
    r.figure += formatted(": most is lost in %s, %.3g ms of a step", std::get<1>(*worst), 1e3 * std::get<2>(*worst));
    if (r.outcome == Outcome::pass) r.outcome = Outcome::warn;
}

}  // namespace convoy
