#include "plan/step_prediction.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>

#include "plan/buckets.h"

namespace convoy {
namespace {

constexpr double backward_share = 2.0 / 3;  // of a step: two products where forward has one

/// Each begins when its bucket is complete and the sum before it has ended.
std::vector<PredictedSum> run_sums(const StepWork& work, const Cluster& cluster, int nodes, int ranks_per_node,
                                   double compute) {
    std::vector<size_t> counts;
    for (const ReadyGradient& g : work.gradients) counts.push_back(g.count);
    std::vector<PredictedSum> sums;
    size_t gradient = 0, complete = 0;
    for (const Bucket& bucket : plan_buckets(counts, std::max<size_t>(1, work.bucket_bytes / sizeof(float)))) {
        double moment = 0;
        for (; complete < bucket.end; ++gradient) {
            complete += counts[gradient];
            moment = work.gradients[gradient].moment;
        }
        const double bytes = double(bucket.end - bucket.begin) * work.gradient_bytes,
                     ready = compute * (1 - backward_share + backward_share * moment),
                     free = sums.empty() ? 0 : sums.back().end;
        const SumTime time = all_reduce_time(cluster, bytes, nodes, ranks_per_node);
        sums.push_back({.bytes = bytes, .ready = ready, .end = std::max(ready, free) + time.seconds, .time = time});
    }
    return sums;
}

Limit limit_of(const StepPrediction& p) {
    if (p.input >= p.step) return Limit::input;
    const std::pair<double, Limit> parts[] = {{p.compute, Limit::compute},
                                              {p.fixed, Limit::fixed},
                                              {p.exposed + p.interference, Limit::communication},
                                              {p.noise, Limit::noise}};
    return std::max_element(std::begin(parts), std::end(parts))->second;
}

StepModel with_factors(StepModel m, double Factor::* bound) {
    for (Factor* f : {&m.host_loss, &m.interference, &m.spread}) f->value = f->*bound;
    return m;
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
    // h is of a node of 8; a time that was measured on several ranks has their part of it
    const double crowd = 1 + m.host_loss.value * (per_node - m.ranks_of_times) / 7.0, alone = m.alone.at(work.batch),
                 fixed = std::min(m.alone.fixed, alone), compute = alone * crowd;
    p.fixed = fixed * crowd;
    p.compute = compute - p.fixed;
    if (ranks > 1) {
        p.buckets = run_sums(work, seen, p.nodes, per_node, compute);
        for (const PredictedSum& sum : p.buckets) p.sums += sum.time.seconds;
        if (!p.buckets.empty()) p.exposed = std::max(0.0, p.buckets.back().end - compute);
        p.interference = m.interference.value * std::min(p.sums, backward_share * compute);
        p.noise = m.spread.value * compute * expected_largest(ranks);
    }
    if (cluster.images_per_second > 0) p.input = double(work.batch) * per_node / cluster.images_per_second;
    p.step = std::max(p.compute + p.fixed + p.exposed + p.interference + p.noise, p.input);
    p.limit = limit_of(p);
    p.images_per_second = double(work.batch) * ranks / p.step;
    return p;
}

StepPrediction worst_step(const StepModel& m, const StepWork& work, const Cluster& c, int ranks) {
    return predict_step(with_factors(m, &Factor::high), work, c, ranks);
}
StepPrediction best_step(const StepModel& m, const StepWork& work, const Cluster& c, int ranks) {
    return predict_step(with_factors(m, &Factor::low), work, c, ranks);
}

size_t usual_bucket_bytes(const Cluster& c) { return size_t(c.link == NodeLink::nvlink ? 16 : 4) << 20; }

size_t best_bucket_bytes(const StepModel& m, StepWork work, const Cluster& c, int ranks) {
    size_t best = 0;
    double shortest = INFINITY;
    std::vector<size_t> sizes = {size_t(4096) << 20};
    for (size_t mib = 256; mib > 0; mib /= 2) sizes.push_back(mib << 20);
    for (const size_t bytes : sizes) {
        work.bucket_bytes = bytes;
        if (const double step = predict_step(m, work, c, ranks).step; step < shortest * (1 - 1e-9)) {
            shortest = step;
            best = bytes;
        }
    }
    return best;
}

}  // namespace convoy
