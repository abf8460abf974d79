#include "accept/speed.h"

#include <algorithm>
#include <cmath>

#include "base/quantile.h"
#include "bench/made_up.h"
#include "bench/measure.h"
#include "model/models.h"
#include "model/precision.h"

namespace convoy {
namespace {

/// Returns the images per second of a group of ranks: the median over the steps. Collective over
/// the group.
double rate_of(Comm& group, const DeviceChoice& choice, const SpeedCase& c, std::string* condition = nullptr) {
    const std::unique_ptr<Backend> backend = backend_for(group, choice, false);
    const int64_t batch = c.batch * group.size();
    const SplitInfo info = made_up_split(c.model, {.size = {1, c.side, c.side, usual_images(c.model).c}, .classes = 10},
                                         batch, c.warmup + c.steps);
    const Graph graph = with_precision(
        fuse(build_model(
            {.name = c.model, .h = info.height, .w = info.width, .c = info.channels, .classes = int(info.classes)})),
        Precision::f32, backend->facts().channel_multiple);
    const DataSet data(group, *backend, info, made_up_rows(info, 1));
    const BenchSteps steps{.warmup = c.warmup, .measured = c.steps};
    TrainSetup s;
    s.schedule.base = 0.001;
    s.preprocessing = {info.mean, info.stddev};
    s.global_batch = batch;
    s.drop_last = true;
    s.checkpoint_at_end = false;
    set_length(s, info, steps);
    const Measured measured = measure_steps(group, *backend, graph, data, s, steps, {}, [](const Error&) {});
    if (condition) {
        const SystemSample now = backend->sample();
        if (!std::isnan(now.clock_hz)) *condition += formatted("%.0f MHz", now.clock_hz / 1e6);
        if (!std::isnan(now.temperature_celsius))
            *condition += formatted("%s%.0f °C", condition->empty() ? "" : ", ", now.temperature_celsius);
    }
    return median(measured.result.images_per_second);
}

/// Returns the rate below which a rank of these is slow. Of fewer than four, the deviations say
/// nothing about noise: the fastest is then the measure, less 10 %.
double limit_of(const std::vector<double>& rates) {
    if (rates.size() < 4) return 0.9 * *std::ranges::max_element(rates);
    const double middle = median(rates);
    std::vector<double> distances;
    for (const double rate : rates) distances.push_back(std::abs(rate - middle));
    constexpr double of_a_deviation = 1.4826;  // MAD of a normal distribution, in units of its deviation
    return middle - std::max(0.1 * middle, 4 * of_a_deviation * median(distances));
}

std::vector<double> rates_of_kind(const std::vector<RankSpeed>& ranks, const std::string& kind,
                                  double RankSpeed::* rate) {
    std::vector<double> rates;
    for (const RankSpeed& r : ranks)
        if (r.kind == kind) rates.push_back(r.*rate);
    return rates;
}

}  // namespace

LevelResult compare_speeds(const std::vector<RankSpeed>& ranks, double together) {
    LevelResult r{.level = "speed"};
    if (ranks.size() == 1) {
        r.outcome = Outcome::skip;
        r.figure = formatted("%.4g images/s by one device: there is none to compare it with", ranks[0].beside);
        return r;
    }
    double sum = 0;
    bool always = false;
    for (const RankSpeed& rank : ranks) {
        sum += rank.beside;
        const std::vector<double> alone = rates_of_kind(ranks, rank.kind, &RankSpeed::alone),
                                  beside = rates_of_kind(ranks, rank.kind, &RankSpeed::beside);
        const std::string condition = rank.condition.empty() ? "" : " (" + rank.condition + ")";
        const bool slow_alone = rank.alone < limit_of(alone), slow_beside = rank.beside < limit_of(beside);
        r.details.push_back(formatted("%s, %s: %.4g images/s alone, %.4g beside the others", rank.host.c_str(),
                                      rank.device.c_str(), rank.alone, rank.beside) +
                            condition);
        always = always || slow_alone;
        if (slow_alone)
            r.blamed.push_back({rank.host, rank.device,
                                formatted("%.4g images/s alone, its kind %.4g", rank.alone, median(alone)) + condition,
                                true});
        else if (slow_beside)
            r.blamed.push_back({rank.host, rank.device,
                                formatted("slow only while its neighbours work: %.4g images/s, its kind %.4g",
                                          rank.beside, median(beside)) +
                                    condition,
                                false});
    }
    if (ranks.size() < 4) {  // too few to tell a slow device from a disturbed machine
        always = false;
        for (Blamed& b : r.blamed) b.drain = false;
    }
    r.outcome = always ? Outcome::fail : r.blamed.empty() ? Outcome::pass : Outcome::warn;
    r.figure =
        formatted("%.4g images/s together, %.0f %% of %.4g without exchange", together, 100 * together / sum, sum);
    r.expected = ranks.size() < 4 ? "each within 10 % of the fastest"
                                  : "each within 10 % of the median of its kind, or of the noise";
    return r;
}

LevelResult speed_level(Comm& world, const DeviceChoice& choice, const SpeedCase& c) {
    const Clock::time_point began = Clock::now();
    const std::unique_ptr<Comm> self = world.split(world.rank());
    RankSpeed mine;
    for (int turn = 0; turn < int(world.max(world.local_size())); ++turn) {
        if (turn == world.local_rank()) mine.alone = rate_of(*self, choice, c);
        world.wait_for_all();
    }
    mine.beside = rate_of(*self, choice, c, &mine.condition);
    world.wait_for_all();
    const double together = world.size() > 1 ? rate_of(world, choice, c) : 0;
    const std::vector<double> rates = world.gather_all(std::vector<double>{mine.alone, mine.beside});
    const std::vector<std::string> hosts = world.gather_all(world.host()),
                                   conditions = world.gather_all(mine.condition),
                                   kinds = world.gather_all(backend_for(*self, choice, false)->facts().kind);
    std::vector<RankSpeed> ranks;
    for (size_t i = 0; i < hosts.size(); ++i)
        ranks.push_back({.host = hosts[i],
                         .device = "rank " + std::to_string(i),
                         .kind = kinds[i],
                         .alone = rates[2 * i],
                         .beside = rates[2 * i + 1],
                         .condition = conditions[i]});
    LevelResult r = compare_speeds(ranks, together);
    r.seconds = seconds_since(began);
    return r;
}

}  // namespace convoy
