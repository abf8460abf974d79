#include "accept/speed.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "accept/speed_expected.h"
#include "base/quantile.h"
#include "bench/made_up.h"
#include "bench/measure.h"
#include "model/models.h"
#include "model/precision.h"
#include "report/expected.h"

namespace convoy {
namespace {

/// Times a group of ranks: medians over the steps. Collective over the group.
SpeedTogether speed_of(Comm& group, const DeviceChoice& choice, const SpeedCase& c, SystemSample* after = nullptr) {
    const std::unique_ptr<Backend> backend = backend_for(group, choice, false);
    const int64_t batch = c.batch * group.size();
    const ModelOptions model = c.options();
    const SplitInfo info = made_up_split(c.model, {.size = {1, c.side, c.side, model.c}, .classes = model.classes},
                                         batch, c.warmup + c.steps);
    const Graph graph = with_precision(fuse(build_model(model)), Precision::f32, backend->facts().channel_multiple);
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
    if (after) *after = backend->sample();
    return {median(measured.result.images_per_second), measured.result.median.data};
}

std::string condition_of(const RankSpeed& r) {
    std::vector<std::string> texts;
    if (!std::isnan(r.clock_hz)) texts.push_back(formatted("%.0f MHz", r.clock_hz / 1e6));
    if (!std::isnan(r.celsius)) texts.push_back(formatted("%.0f °C", r.celsius));
    return texts.empty() ? "" : " (" + joined(texts, ", ") + ")";
}

constexpr size_t fewest_for_noise = 4;  // ranks; the deviations of fewer do not show how large noise is
constexpr double slow_below = 0.9;      // of the usual rate

/// Returns the rate that ranks are compared with: the median, or the fastest if they are few.
double usual(const std::vector<double>& rates) {
    return rates.size() < fewest_for_noise ? *std::ranges::max_element(rates) : median(rates);
}

/// Returns the rate below which one of these ranks is slow. It is 10 % below the usual rate. With
/// enough ranks to know the noise, it is also at least four deviations below the median.
double limit_of(const std::vector<double>& rates) {
    const double limit = slow_below * usual(rates);
    if (rates.size() < fewest_for_noise) return limit;
    const double middle = median(rates);
    std::vector<double> distances;
    for (const double rate : rates) distances.push_back(std::abs(rate - middle));
    constexpr double deviation_per_mad = 1.4826;  // of a normal distribution; MAD: median absolute deviation
    return std::min(limit, middle - 4 * deviation_per_mad * median(distances));
}

std::vector<double> rates_of_kind(const std::vector<RankSpeed>& ranks, const std::string& kind,
                                  double RankSpeed::* rate) {
    std::vector<double> rates;
    for (const RankSpeed& r : ranks)
        if (r.kind == kind) rates.push_back(r.*rate);
    return rates;
}

/// Returns true if all ranks of a kind are on one host, so that no other host shows their normal
/// speed.
bool is_on_one_host(const std::vector<RankSpeed>& ranks, const std::string& kind) {
    std::set<std::string> hosts;
    for (const RankSpeed& r : ranks)
        if (r.kind == kind) hosts.insert(r.host);
    return hosts.size() < 2;
}

/// The rates of a rank's kind.
struct RatesOfKind {
    double alone, alone_limit, beside, beside_limit;  // medians, and the limits below which a rank is slow
    bool few;                                         // too few ranks to know how large noise is
};

RatesOfKind rates_of(const std::vector<RankSpeed>& ranks, const std::string& kind) {
    const std::vector<double> alone = rates_of_kind(ranks, kind, &RankSpeed::alone),
                              beside = rates_of_kind(ranks, kind, &RankSpeed::beside);
    return {median(alone), limit_of(alone), median(beside), limit_of(beside), alone.size() < fewest_for_noise};
}

void add_figures(const RankSpeed& rank, int index, const RatesOfKind& kind, LevelResult& r) {
    for (const auto& [name, unit, value] : {std::tuple("alone", "images/s", rank.alone),
                                            {"alone_median", "images/s", kind.alone},
                                            {"alone_limit", "images/s", kind.alone_limit},
                                            {"beside", "images/s", rank.beside},
                                            {"beside_median", "images/s", kind.beside},
                                            {"beside_limit", "images/s", kind.beside_limit},
                                            {"clock", "Hz", rank.clock_hz},
                                            {"temperature", "°C", rank.celsius}})
        r.add({.name = name, .unit = unit, .value = value, .host = rank.host, .rank = index});
}

/// Blames a rank that is too slow alone, or too slow beside the others. If its kind has few ranks,
/// a rank that is too slow only alone is not blamed, because a single rate may be noise.
/// `certain`: a slow rank has a slow device, and not just a disturbed machine.
void judge(const RankSpeed& rank, const RatesOfKind& kind, bool certain, LevelResult& r) {
    const std::string condition = condition_of(rank);
    const bool slow_beside = rank.beside < kind.beside_limit;
    if (rank.alone < kind.alone_limit && (slow_beside || !kind.few))
        r.blamed.push_back({rank.host, rank.device,
                            formatted("%.4g images/s alone, its kind %.4g", rank.alone, kind.alone) + condition,
                            certain});
    else if (slow_beside)
        r.blamed.push_back(
            {rank.host, rank.device,
             formatted("slow only while its neighbours work: %.4g images/s, its kind %.4g", rank.beside, kind.beside) +
                 condition,
             false});
}

/// Times each rank alone and beside the others. Collective; the result is the same on every rank.
std::vector<RankSpeed> speeds_apart(Comm& world, Comm& self, const DeviceChoice& choice, const SpeedCase& c,
                                    const std::string& kind) {
    double alone = 0;
    for (int turn = 0; turn < int(world.max(world.local_size())); ++turn) {
        if (turn == world.local_rank()) alone = speed_of(self, choice, c).images_per_second;
        world.wait_for_all();
    }
    SystemSample after;
    const double beside = speed_of(self, choice, c, &after).images_per_second;
    const std::vector<double> rates =
        world.gather_all(std::vector<double>{alone, beside, after.clock_hz, after.temperature_celsius});
    const std::vector<std::string> hosts = world.gather_all(world.host()), kinds = world.gather_all(kind);
    std::vector<RankSpeed> ranks;
    for (size_t i = 0; i < hosts.size(); ++i)
        ranks.push_back({.host = hosts[i],
                         .device = "rank " + std::to_string(i),
                         .kind = kinds[i],
                         .alone = rates[4 * i],
                         .beside = rates[4 * i + 1],
                         .clock_hz = rates[4 * i + 2],
                         .celsius = rates[4 * i + 3]});
    return ranks;
}

}  // namespace

ModelOptions SpeedCase::options() const {
    return {.name = model, .h = side, .w = side, .c = usual_images(model).c, .classes = 10};
}

LevelResult compare_speeds(const std::vector<RankSpeed>& ranks, double together) {
    LevelResult r{.level = "speed"};
    if (ranks.size() == 1) {
        r.outcome = Outcome::skip;
        r.figure = formatted("%.4g images/s by one device: there is none to compare it with", ranks[0].beside);
        r.add({.name = "alone", .unit = "images/s", .value = ranks[0].alone, .host = ranks[0].host, .rank = 0});
        return r;
    }
    double sum = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
        const RankSpeed& rank = ranks[i];
        sum += rank.beside;
        const RatesOfKind kind = rates_of(ranks, rank.kind);
        add_figures(rank, int(i), kind, r);
        r.details.push_back(formatted("%s, %s: %.4g images/s alone, %.4g beside the others", rank.host.c_str(),
                                      rank.device.c_str(), rank.alone, rank.beside) +
                            condition_of(rank));
        // Fewer than four ranks, or one host, do not tell a slow device from a disturbed machine.
        judge(rank, kind, ranks.size() >= fewest_for_noise && !is_on_one_host(ranks, rank.kind), r);
    }
    r.outcome = std::ranges::any_of(r.blamed, &Blamed::drain) ? Outcome::fail
                : r.blamed.empty()                            ? Outcome::pass
                                                              : Outcome::warn;
    r.add({.name = "together", .unit = "images/s", .value = together});
    r.figure =
        formatted("%.4g images/s together, %.0f %% of %.4g without all-reduces", together, 100 * together / sum, sum);
    r.expected = ranks.size() < fewest_for_noise
                     ? "each within 10 % of the fastest"
                     : "each within 10 % of the median of its kind, or within the noise if that is larger";
    return r;
}

bool is_doubtful(const std::vector<RankSpeed>& ranks) {
    return std::ranges::any_of(ranks, [&](const RankSpeed& rank) {
        return rank.alone < slow_below * usual(rates_of_kind(ranks, rank.kind, &RankSpeed::alone)) ||
               rank.beside < slow_below * usual(rates_of_kind(ranks, rank.kind, &RankSpeed::beside));
    });
}

void keep_best(std::vector<RankSpeed>& best, const std::vector<RankSpeed>& now) {
    for (size_t i = 0; i < best.size(); ++i) {
        const RankSpeed earlier = best[i];
        best[i] = now[i];
        best[i].alone = std::max(earlier.alone, now[i].alone);
        best[i].beside = std::max(earlier.beside, now[i].beside);
    }
}

LevelResult speed_level(Comm& world, const DeviceChoice& choice, const SpeedCase& c, const Cluster* cluster) {
    const Clock::time_point began = Clock::now();
    const std::unique_ptr<Comm> self = world.split(world.rank());
    const auto facts = backend_for(*self, choice, false)->facts();
    std::vector<RankSpeed> ranks = speeds_apart(world, *self, choice, c, facts.kind);
    int measured = 1;
    for (constexpr int at_most = 3; measured < at_most && is_doubtful(ranks); ++measured)
        keep_best(ranks, speeds_apart(world, *self, choice, c, facts.kind));
    const SpeedTogether together = world.size() > 1 ? speed_of(world, choice, c) : SpeedTogether{};
    LevelResult r = compare_speeds(ranks, together.images_per_second);
    if (measured > 1)
        r.details.push_back(
            formatted("measured %d times, because rates differed; the highest of each counts", measured));
    const int nodes = int(world.sum(int64_t(world.local_rank() == 0)));
    const char* device_kind = facts.synchronous ? "cpu" : "gpu";
    if (cluster && world.size() > 1) {
        if (knows_sums(*cluster, device_kind, nodes))
            add_expectation(expected_speed(c, ranks, together, nodes, *cluster), together, cluster->name, r);
        else
            r.expected += "; " + cluster->name + " does not say how fast all-reduces are here: add an all-reduce-table";
    }
    r.seconds = seconds_since(began);
    return r;
}

}  // namespace convoy
