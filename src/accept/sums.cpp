#include "accept/sums.h"

#include <algorithm>

#include "base/quantile.h"
#include "bench/all_reduces.h"
#include "plan/all_reduce_time.h"
#include "report/expected.h"

namespace convoy {
namespace {

struct Timed {
    /// shortest time of the slowest rank: other work on a node only adds to a time
    double seconds = 0;
    std::string wrong{};  ///< the first wrong element; empty: each was right
};

/// All-reduces f32 numbers whose sums are known and exact. Ends after `iterations` all-reduces, or
/// after two seconds, because a link that takes so long is certainly slow. Collective over the
/// group.
Timed time_all_reduce(Comm& group, Backend& backend, size_t bytes, int iterations) {
    const size_t count = bytes / sizeof(float);
    constexpr size_t period = 61;
    const auto value = [](int rank, size_t i) { return float((size_t(rank) * 7 + i % period) % period); };
    std::vector<float> mine(count), sums(count), expected(period);  // sums repeat as the values do
    for (size_t i = 0; i < count; ++i) mine[i] = value(group.rank(), i);
    for (size_t i = 0; i < period; ++i)
        for (int rank = 0; rank < group.size(); ++rank) expected[i] += value(rank, i);
    const Buffer buffer = backend.allocate_reduced(bytes);
    const Tensor tensor{buffer.get(), {1, 1, 1, int(count)}, DType::f32};
    Tape tape;
    backend.allreduce(tensor, 0, tape);
    backend.wait_allreduce(tape);
    const std::function<void()> all_reduce = backend.finish(std::move(tape));
    Timed result;
    std::vector<double> seconds;
    double spent = 0;
    constexpr double enough = 2;
    for (int i = 0; i < iterations && spent < enough; ++i) {
        backend.upload(buffer.get(), mine.data(), bytes);
        group.barrier();
        const Clock::time_point began = Clock::now();
        all_reduce();
        backend.synchronize();
        seconds.push_back(seconds_since(began));
        spent += double(group.max(int64_t(1e6 * seconds.back()))) / 1e6;  // the same on all ranks
        backend.download(sums.data(), buffer.get(), bytes);
        for (size_t k = 0; k < count && result.wrong.empty(); ++k)
            if (sums[k] != expected[k % period])
                result.wrong = formatted("element %zu of an all-reduce over %d ranks is %g instead of %g", k,
                                         group.size(), double(sums[k]), double(expected[k % period]));
    }
    const std::vector<double> all = group.gather_all(std::vector<double>{*std::ranges::min_element(seconds)});
    result.seconds = *std::ranges::max_element(all);
    return result;
}

double bandwidth(size_t bytes, int ranks, double seconds) {
    return seconds > 0 ? double(bytes) * bus_factor(ranks) / seconds : 0;
}

std::string gigabytes(double bytes_per_second) { return formatted("%.3g GB/s", bytes_per_second / 1e9); }

/// Returns the bandwidths of a node's pairs.
std::vector<double> of_node(const NodeSums& s, size_t node) {
    std::vector<double> pairs;
    for (size_t other = 0; other < s.hosts.size(); ++other)
        if (other != node) pairs.push_back(s.pairs[node][other]);
    return pairs;
}

constexpr const char* rate_unit = "bytes/s";

/// Returns the node that has more slow links than any other node, and their number. Returns 0 links
/// unless these are most of its links to nodes that are not bad. They need not be all, because a
/// card that fails now and then may have been fast with one node.
std::pair<size_t, size_t> common_end(const NodeSums& s, double limit, const std::vector<bool>& bad) {
    size_t worst = 0, most = 0, ends = 0;
    const size_t partners = size_t(std::ranges::count(bad, false)) - 1;
    for (size_t node = 0; node < s.hosts.size(); ++node) {
        size_t links = 0;
        for (size_t other = 0; other < s.hosts.size(); ++other)
            links += other != node && !bad[node] && !bad[other] && s.pairs[node][other] < limit;
        ends = links > most ? 1 : ends + (links == most);
        if (links > most) worst = node, most = links;
    }
    const bool clear = ends == 1 && most >= 2 && 2 * most > partners;
    return {worst, clear ? most : 0};
}

constexpr double slow = 0.7;  // a node or pair is slow below this share of what sound ones reach

/// Blames nodes, then pairs of nodes that were not blamed. Needs three nodes, because with two it
/// is not known which of them makes their pair slow.
void blame_network(const NodeSums& s, LevelResult& r) {
    const size_t nodes = s.hosts.size();
    if (nodes < 3) return;
    std::vector<double> all;
    for (size_t a = 0; a < nodes; ++a)
        for (size_t b = a + 1; b < nodes; ++b) all.push_back(s.pairs[a][b]);
    // A sound pair is as fast as the fastest ones, not as the median: one bad node of three slows
    // two of three pairs.
    const double sound = quantile(all, 0.8);
    r.add({.name = "pair_limit", .unit = rate_unit, .value = slow * sound});
    std::vector<bool> bad(nodes);
    const auto blame = [&](size_t node, const std::string& others) {
        bad[node] = true;
        r.blamed.push_back(
            {s.hosts[node], "",
             "slow with " + others + ": " + gigabytes(median(of_node(s, node))) + ", sound pairs " + gigabytes(sound),
             true});
    };
    for (size_t node = 0; node < nodes; ++node)
        if (std::ranges::max(of_node(s, node)) < slow * sound) blame(node, "every other node");
    if (const auto [node, links] = common_end(s, slow * sound, bad); links > 0)
        blame(node, formatted("%zu of %zu other nodes", links, nodes - 1));
    for (size_t a = 0; a < nodes; ++a)
        for (size_t b = a + 1; b < nodes; ++b)
            if (!bad[a] && !bad[b] && s.pairs[a][b] < slow * sound)
                r.blamed.push_back(
                    {s.hosts[a] + " and " + s.hosts[b], "",
                     "the link between them is slow: " + gigabytes(s.pairs[a][b]) + ", sound pairs " + gigabytes(sound),
                     false});
}

/// Adds what was measured as lines for people, and as figures.
void add_measurements(const NodeSums& s, const ExpectedSums& expected, LevelResult& r) {
    for (size_t node = 0; node < s.hosts.size(); ++node) {
        if (s.inside[node] > 0) {
            r.details.push_back(s.hosts[node] + ": " + gigabytes(s.inside[node]) + " inside");
            r.add({.name = "inside_bandwidth", .unit = rate_unit, .value = s.inside[node], .host = s.hosts[node]});
        }
        for (size_t other = node + 1; other < s.hosts.size(); ++other) {
            r.details.push_back(s.hosts[node] + " and " + s.hosts[other] + ": " + gigabytes(s.pairs[node][other]));
            r.add({.name = "pair_bandwidth",
                   .unit = rate_unit,
                   .value = s.pairs[node][other],
                   .host = s.hosts[node],
                   .peer = s.hosts[other]});
        }
    }
    for (const auto& [bytes, rate] : s.by_size) {
        r.details.push_back(formatted("all ranks, %zu bytes: ", bytes) + gigabytes(rate));
        r.add({.name = "bandwidth", .unit = rate_unit, .value = rate, .at = double(bytes), .at_unit = "bytes"});
    }
    for (const auto& [bytes, rate] : expected.by_size)
        r.add(
            {.name = "expected_bandwidth", .unit = rate_unit, .value = rate, .at = double(bytes), .at_unit = "bytes"});
    for (const auto& [name, what, rate] : {std::tuple("expected_inside_bandwidth", "inside a node", expected.inside),
                                           {"expected_pair_bandwidth", "between two nodes", expected.pair}}) {
        if (rate <= 0) continue;
        r.details.push_back(expected.cluster + " predicts " + gigabytes(rate) + " " + what);
        r.add({.name = name, .unit = rate_unit, .value = rate});
    }
}

}  // namespace

ExpectedSums expected_sums(const Cluster& cluster, const NodeSums& s, size_t bytes, int ranks_per_node, bool gpu) {
    ExpectedSums expected{.cluster = cluster.name};
    const int nodes = int(s.hosts.size());
    const auto rate = [&](size_t size, int among) {
        const int ranks = among * ranks_per_node;
        if (ranks < 2 || among > nodes || !knows_sums(cluster, gpu ? "gpu" : "cpu", among)) return 0.0;
        return bandwidth(size, ranks, all_reduce_time(cluster, double(size), among, ranks_per_node).seconds);
    };
    expected.inside = rate(bytes, 1);
    expected.pair = rate(bytes, 2);
    expected.all = rate(bytes, nodes);
    for (const auto& [size, unused] : s.by_size)
        if (expected.all > 0) expected.by_size.emplace_back(size, rate(size, nodes));
    return expected;
}

std::vector<std::vector<std::pair<int, int>>> rounds_of(int n) {
    const int seats = n + n % 2;  // the player of the last seat does not exist if n is odd
    std::vector<std::vector<std::pair<int, int>>> rounds;
    for (int round = 0; round + 1 < seats; ++round) {
        std::vector<std::pair<int, int>> pairs;
        // Seat 0 stays, the others move on by one each round.
        const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
        for (int i = 0; i < seats / 2; ++i)
            if (const int a = at(i), b = at(seats - 1 - i); a < n && b < n)
                pairs.emplace_back(std::min(a, b), std::max(a, b));
        rounds.push_back(pairs);
    }
    return rounds;
}

LevelResult judge_sums(const NodeSums& s, size_t bytes, const ExpectedSums& expected) {
    LevelResult r{.level = "sums"};
    add_measurements(s, expected, r);
    std::vector<double> inside;
    for (const double b : s.inside)
        if (b > 0) inside.push_back(b);
    for (size_t node = 0; node < s.hosts.size() && inside.size() >= 3; ++node)
        if (s.inside[node] > 0 && s.inside[node] < slow * median(inside))
            r.blamed.push_back(
                {s.hosts[node], "",
                 "slow inside the node: " + gigabytes(s.inside[node]) + ", the others " + gigabytes(median(inside)),
                 true});
    blame_network(s, r);
    r.outcome = r.blamed.empty() ? Outcome::pass : Outcome::fail;
    for (const std::string& wrong : s.wrong) {
        if (wrong.empty()) continue;
        r.outcome = Outcome::fail;
        r.blamed.push_back({wrong.substr(0, wrong.find(',')), wrong.substr(wrong.find(',') + 2), "wrong sums", true});
    }
    if (s.all == 0) {
        r.outcome = Outcome::skip;
        r.figure = "one rank reduces nothing";
        return r;
    }
    r.figure = gigabytes(s.all) + formatted(" over all ranks, all-reduces of %.3g MiB", double(bytes) / (1 << 20));
    r.expected = s.hosts.size() < 3 ? "exact sums" : "exact sums, and pairs of nodes alike";
    if (expected.all > 0)
        r.expected += formatted(", and %.3g GB/s by %s, of which this is %.0f %%", expected.all / 1e9,
                                expected.cluster.c_str(), 100 * s.all / expected.all);
    else if (!expected.cluster.empty())
        r.expected += "; " + expected.cluster + " does not say how fast all-reduces are here: add an all-reduce-table";
    return r;
}

LevelResult sums_level(Comm& world, const DeviceChoice& choice, size_t bytes, int iterations, const Cluster* cluster) {
    const Clock::time_point began = Clock::now();
    // A node is known by its lowest rank.
    const int leader = std::stoi(world.gather_node(std::to_string(world.rank())).front());
    const std::vector<std::string> leaders = world.gather_all(std::to_string(leader)),
                                   hosts = world.gather_all(world.host());
    NodeSums s;
    std::vector<int> ids;  // of the nodes
    for (size_t rank = 0; rank < leaders.size(); ++rank) {
        if (std::stoi(leaders[rank]) != int(rank)) continue;
        s.hosts.push_back(hosts[rank]);
        ids.push_back(int(rank));
    }
    const int node = int(std::ranges::find(ids, leader) - ids.begin()), nodes = int(ids.size());
    std::string wrong;
    bool gpu = false;
    /// Returns the bandwidth for each size in this rank's group; zeros if it is alone.
    const auto measure = [&](int group, const std::vector<size_t>& sizes) {
        const std::unique_ptr<Comm> comm = world.split(group);
        std::vector<double> rates(sizes.size());
        if (comm->size() == 1) return rates;
        const std::unique_ptr<Backend> backend = backend_for(*comm, choice, false);
        gpu = !backend->facts().synchronous;
        for (size_t i = 0; i < sizes.size(); ++i) {
            const Timed t = time_all_reduce(*comm, *backend, sizes[i], iterations);
            if (wrong.empty() && !t.wrong.empty())
                wrong = world.host() + ", rank " + std::to_string(world.rank()) + ": " + t.wrong;
            rates[i] = bandwidth(sizes[i], comm->size(), t.seconds);
        }
        return rates;
    };
    const std::vector<size_t> sizes = {bytes / 512, bytes / 64, bytes / 8, bytes};
    const std::vector<double> rates = measure(0, sizes);
    s.all = rates.back();
    for (size_t i = 0; i < sizes.size() && s.all > 0; ++i) s.by_size.emplace_back(sizes[i], rates[i]);
    // The ranks of the only node are all ranks, which were measured.
    const std::vector<double> inside =
        world.gather_all(nodes > 1 ? measure(node, {bytes}) : std::vector<double>{s.all});
    for (const int id : ids) s.inside.push_back(inside[id]);
    s.pairs.assign(size_t(nodes), std::vector<double>(size_t(nodes), 0.0));
    for (const auto& round : nodes > 1 ? rounds_of(nodes) : decltype(rounds_of(2)){}) {
        int partner = node;
        for (const auto& [a, b] : round)
            if (a == node || b == node) partner = a == node ? b : a;
        // A node that waits in this round joins split() as a separate group, and measures nothing.
        const double mine =
            partner == node ? (world.split(nodes + node), 0.0) : measure(std::min(node, partner), {bytes}).front();
        const std::vector<double> all = world.gather_all(std::vector<double>{mine});
        for (const auto& [a, b] : round) s.pairs[a][b] = s.pairs[b][a] = all[ids[a]];
    }
    s.wrong = world.gather_all(wrong);
    const int ranks_per_node = world.size() / nodes;
    LevelResult r =
        judge_sums(s, bytes, cluster ? expected_sums(*cluster, s, bytes, ranks_per_node, gpu) : ExpectedSums{});
    r.seconds = seconds_since(began);
    return r;
}

}  // namespace convoy
