#include "plan/step_prediction.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>

#include "plan/buckets.h"

namespace convoy {
namespace {

constexpr double backward_share = 2.0 / 3;  // share of a step: backward has two GEMMs for each one of forward

/// Predicts the all-reduces of a step. Each begins when its bucket is complete and the previous
/// all-reduce has ended.
std::vector<PredictedAllReduce> run_all_reduces(const StepWork& work, const Cluster& cluster, int nodes,
                                                int ranks_per_node, double compute) {
    std::vector<size_t> counts;
    for (const ReadyGradient& g : work.gradients) counts.push_back(g.count);
    const size_t target = work.bucket_bytes > 0 ? work.bucket_bytes : usual_bucket_bytes(cluster, nodes);
    const AllReduceTimes times(cluster, nodes, ranks_per_node);
    std::vector<PredictedAllReduce> all_reduces;
    size_t gradient = 0, complete = 0;
    for (const Bucket& bucket : cut_buckets(counts, std::max<size_t>(1, target / sizeof(float)))) {
        double moment = 0;
        for (; complete < bucket.end; ++gradient) {
            complete += counts[gradient];
            moment = work.gradients[gradient].moment;
        }
        const double bytes = double(bucket.end - bucket.begin) * work.gradient_bytes,
                     ready = compute * (1 - backward_share + backward_share * moment),
                     free = all_reduces.empty() ? 0 : all_reduces.back().end;
        const AllReduceTime time = times.of(bytes);
        all_reduces.push_back(
            {.bytes = bytes, .ready = ready, .end = std::max(ready, free) + time.seconds, .time = time});
    }
    return all_reduces;
}

Limit limit_of(const StepPrediction& p) {
    if (p.input >= p.step) return Limit::input;
    const std::pair<double, Limit> parts[] = {{p.compute, Limit::compute},
                                              {p.fixed, Limit::fixed},
                                              {p.node_loss, Limit::node},
                                              {p.exposed + p.interference, Limit::communication},
                                              {p.noise, Limit::noise}};
    return std::max_element(std::begin(parts), std::end(parts))->second;
}

/// Returns the factor by which a step is slower on ranks_per_node ranks of a node than on one. h is
/// the loss of a node with 8 ranks.
double crowding(const StepModel& m, int ranks_per_node) { return 1 + m.host_loss.value * (ranks_per_node - 1) / 7; }

/// Predicts a step with the worst or the best bounds. The measured times include the loss h of the
/// nodes that they were measured on. For fewer ranks per node, some of it is subtracted: a larger h
/// then gives a shorter step, so that its high bound is the best one.
StepPrediction bounded(StepModel m, const StepWork& work, const Cluster& c, int ranks, bool worst) {
    const auto bound = [](const Factor& f, bool high) { return high ? f.high : f.low; };
    const bool more_of_a_node = std::min(ranks, c.ranks_per_node) >= m.ranks_of_times;
    m.host_loss.value = bound(m.host_loss, worst == more_of_a_node);
    m.interference.value = bound(m.interference, worst);
    m.spread.value = bound(m.spread, worst);
    return predict_step(m, work, c, ranks);
}

}  // namespace

double StepTimes::at(int64_t batch) const {
    const auto known = measured.find(batch);
    return known != measured.end() ? known->second : fixed + per_sample * double(batch);
}

const char* name_of(Limit limit) {
    switch (limit) {
        case Limit::compute: return "compute";
        case Limit::fixed: return "fixed time";
        case Limit::node: return "full node";
        case Limit::communication: return "communication";
        case Limit::noise: return "slowest rank";
        case Limit::input: return "input";
    }
    return "";
}

double expected_largest(int n) {
    if (n < 2) return 0;
    const double below = (n - 0.375) / (n + 0.25);
    return std::sqrt(2.0) * boost::math::erf_inv(2 * below - 1);
}

StepPrediction predict_step(const StepModel& m, const StepWork& work, const Cluster& cluster, int ranks) {
    Cluster seen = cluster;
    seen.adapter_bandwidth *= m.network_share;
    const int per_node = std::min(ranks, cluster.ranks_per_node);
    StepPrediction p;
    p.ranks = ranks;
    p.nodes = (ranks + per_node - 1) / per_node;
    const double alone = m.alone.at(work.batch) / crowding(m, m.ranks_of_times),
                 compute = alone * crowding(m, per_node);
    p.fixed = std::min(m.alone.fixed / crowding(m, m.ranks_of_times), alone);
    p.compute = alone - p.fixed;
    p.node_loss = compute - alone;
    if (ranks > 1) {
        p.buckets = run_all_reduces(work, seen, p.nodes, per_node, compute);
        for (const PredictedAllReduce& bucket : p.buckets) p.all_reduces += bucket.time.seconds;
        if (!p.buckets.empty()) p.exposed = std::max(0.0, p.buckets.back().end - compute);
        p.interference = m.interference.value * std::min(p.all_reduces, backward_share * compute);
        p.noise = m.spread.value * compute * expected_largest(ranks);
    }
    if (cluster.images_per_second > 0) p.input = double(work.batch) * per_node / cluster.images_per_second;
    p.step = std::max(p.compute + p.fixed + p.node_loss + p.exposed + p.interference + p.noise, p.input);
    p.limit = limit_of(p);
    p.images_per_second = double(work.batch) * ranks / p.step;
    return p;
}

StepPrediction worst_step(const StepModel& m, const StepWork& work, const Cluster& c, int ranks) {
    return bounded(m, work, c, ranks, true);
}
StepPrediction best_step(const StepModel& m, const StepWork& work, const Cluster& c, int ranks) {
    return bounded(m, work, c, ranks, false);
}

size_t usual_bucket_bytes(const Cluster& c, int nodes) {
    const bool fast = nodes > 1 ? c.verbs : c.link == NodeLink::nvlink;
    return size_t(fast ? 16 : 4) << 20;
}

size_t best_bucket_bytes(const StepModel& m, StepWork work, const Cluster& c, int ranks) {
    const auto step = [&](size_t bytes) {
        work.bucket_bytes = bytes;
        return predict_step(m, work, c, ranks);
    };
    const StepPrediction usual = step(0);
    size_t best = usual_bucket_bytes(c, usual.nodes);
    double shortest = usual.step - 1e-3 * (usual.exposed + usual.interference);
    for (size_t mib = 4096; mib > 0; mib = mib > 256 ? 256 : mib / 2)
        if (const double seconds = step(mib << 20).step; seconds < shortest) {
            shortest = seconds;
            best = mib << 20;
        }
    return best;
}

}  // namespace convoy
