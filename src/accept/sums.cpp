#include "accept/sums.h"

#include <algorithm>
#include <functional>

#include "base/quantile.h"
#include "bench/all_reduces.h"
#include "plan/all_reduce_time.h"
#include "report/expected.h"

namespace convoy {
namespace {

struct Timed {
    /// the longest of the ranks' shortest times, because other work only adds to a time
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

/// The parts that are slower than the rest.
struct SlowParts {
    struct SlowNode {
        size_t node;
        std::string others;  ///< the nodes with which it is slow, in words
    };
    std::vector<size_t> inside;                    ///< nodes that are slow inside
    std::vector<SlowNode> nodes;                   ///< nodes with slow links to others
    std::vector<std::pair<size_t, size_t>> pairs;  ///< slow pairs of two other nodes
    double sound_inside = 0, sound_pair = 0;       ///< bandwidths of sound ones; 0: too few nodes to know
};

/// Finds slow nodes, then slow pairs of other nodes. Pairs need three nodes, because with two it is
/// not known which of them makes their pair slow.
SlowParts slow_parts(const NodeSums& s) {
    SlowParts found;
    const size_t nodes = s.hosts.size();
    std::vector<double> inside, pairs;
    for (const double b : s.inside)
        if (b > 0) inside.push_back(b);
    if (inside.size() >= 3) found.sound_inside = median(inside);
    for (size_t node = 0; node < nodes; ++node)
        if (s.inside[node] > 0 && s.inside[node] < slow * found.sound_inside) found.inside.push_back(node);
    if (nodes < 3) return found;
    for (size_t a = 0; a < nodes; ++a)
        for (size_t b = a + 1; b < nodes; ++b) pairs.push_back(s.pairs[a][b]);
    // A sound pair is as fast as the fastest ones, not as the median: one bad node of three slows
    // two of three pairs.
    found.sound_pair = quantile(pairs, 0.8);
    const double limit = slow * found.sound_pair;
    std::vector<bool> bad(nodes);
    const auto blame = [&](size_t node, const std::string& others) {
        bad[node] = true;
        found.nodes.push_back({node, others});
    };
    for (size_t node = 0; node < nodes; ++node)
        if (std::ranges::max(of_node(s, node)) < limit) blame(node, "every other node");
    if (const auto [node, links] = common_end(s, limit, bad); links > 0)
        blame(node, formatted("%zu of %zu other nodes", links, nodes - 1));
    for (size_t a = 0; a < nodes; ++a)
        for (size_t b = a + 1; b < nodes; ++b)
            if (!bad[a] && !bad[b] && s.pairs[a][b] < limit) found.pairs.emplace_back(a, b);
    return found;
}

/// Blames what is slow.
void blame_slow_parts(const NodeSums& s, const SlowParts& found, LevelResult& r) {
    for (const size_t node : found.inside)
        r.blamed.push_back(
            {s.hosts[node], "",
             "slow inside the node: " + gigabytes(s.inside[node]) + ", the others " + gigabytes(found.sound_inside),
             true});
    const std::string sound = ", sound pairs " + gigabytes(found.sound_pair);
    for (const auto& [node, others] : found.nodes)
        r.blamed.push_back(
            {s.hosts[node], "", "slow with " + others + ": " + gigabytes(median(of_node(s, node))) + sound, true});
    for (const auto& [a, b] : found.pairs)
        r.blamed.push_back({s.hosts[a] + " and " + s.hosts[b], "",
                            "the link between them is slow: " + gigabytes(s.pairs[a][b]) + sound, false});
    if (found.sound_pair > 0) r.add({.name = "pair_limit", .unit = rate_unit, .value = slow * found.sound_pair});
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

/// Times all-reduces of groups of ranks. A repeated measurement replaces a rate only by a higher
/// one. The constructor and all measurements are collective.
class Tournament {
public:
    Tournament(Comm& world, const DeviceChoice& choice, int iterations)
        : world_(world), choice_(choice), iterations_(iterations) {
        // A node is known by its lowest rank.
        const int leader = std::stoi(world.gather_node(std::to_string(world.rank())).front());
        const std::vector<std::string> leaders = world.gather_all(std::to_string(leader));
        for (size_t rank = 0; rank < leaders.size(); ++rank)
            if (std::stoi(leaders[rank]) == int(rank)) leaders_.push_back(rank);
        node_ = size_t(std::ranges::find(leaders_, size_t(leader)) - leaders_.begin());
    }

    NodeSums all_together(const std::vector<size_t>& sizes) {
        const std::vector<std::string> hosts = world_.gather_all(world_.host());
        const std::vector<double> rates = measure(0, sizes);
        const size_t nodes = leaders_.size();
        NodeSums s{.hosts = {},
                   .inside = std::vector<double>(nodes),
                   .pairs = std::vector(nodes, std::vector<double>(nodes)),
                   .all = rates.back()};
        for (const size_t rank : leaders_) s.hosts.push_back(hosts[rank]);
        for (size_t i = 0; i < sizes.size() && s.all > 0; ++i) s.by_size.emplace_back(sizes[i], rates[i]);
        return s;
    }
    void each_inside(NodeSums& s, size_t bytes) {
        // The ranks of the only node are all ranks, which were measured.
        const double mine = leaders_.size() > 1 ? measure(int(node_), {bytes}).front() : s.all;
        const std::vector<double> all = world_.gather_all(std::vector<double>{mine});
        for (size_t node = 0; node < leaders_.size(); ++node)
            s.inside[node] = std::max(s.inside[node], all[leaders_[node]]);
    }
    /// Measures the pairs for which `wanted` is true, many at once.
    void each_pair(NodeSums& s, size_t bytes, const std::function<bool(size_t, size_t)>& wanted) {
        const size_t nodes = leaders_.size();
        for (std::vector<std::pair<int, int>> round : rounds_of(int(nodes))) {
            std::erase_if(round, [&](const auto& pair) { return !wanted(size_t(pair.first), size_t(pair.second)); });
            if (round.empty()) continue;
            size_t partner = node_;
            for (const auto& [a, b] : round)
                if (size_t(a) == node_ || size_t(b) == node_) partner = size_t(a + b) - node_;
            // A node that waits in this round joins split() as a separate group, and measures
            // nothing.
            const double mine = partner == node_ ? (world_.split(int(nodes + node_)), 0.0)
                                                 : measure(int(std::min(node_, partner)), {bytes}).front();
            const std::vector<double> all = world_.gather_all(std::vector<double>{mine});
            for (const auto& [a, b] : round)
                s.pairs[a][b] = s.pairs[b][a] = std::max(s.pairs[a][b], all[leaders_[size_t(a)]]);
        }
    }

    /// Returns the first wrong sum of this rank; empty: all were right.
    const std::string& wrong() const { return wrong_; }
    bool gpu() const { return gpu_; }
    int ranks_per_node() const { return world_.size() / int(leaders_.size()); }

private:
    /// Returns the bandwidth for each size in this rank's group; zeros if it is alone.
    std::vector<double> measure(int group, const std::vector<size_t>& sizes) {
        const std::unique_ptr<Comm> comm = world_.split(group);
        std::vector<double> rates(sizes.size());
        if (comm->size() == 1) return rates;
        const std::unique_ptr<Backend> backend = backend_for(*comm, choice_, false);
        gpu_ = !backend->facts().synchronous;
        for (size_t i = 0; i < sizes.size(); ++i) {
            const Timed t = time_all_reduce(*comm, *backend, sizes[i], iterations_);
            if (wrong_.empty() && !t.wrong.empty())
                wrong_ = world_.host() + ", rank " + std::to_string(world_.rank()) + ": " + t.wrong;
            rates[i] = bandwidth(sizes[i], comm->size(), t.seconds);
        }
        return rates;
    }

    Comm& world_;
    DeviceChoice choice_;
    int iterations_;
    std::vector<size_t> leaders_;  // by node
    size_t node_ = 0;
    std::string wrong_;
    bool gpu_ = false;
};

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

LevelResult judge_sums(const NodeSums& s, size_t bytes, const ExpectedSums& expected) {
    LevelResult r{.level = "sums"};
    add_measurements(s, expected, r);
    blame_slow_parts(s, slow_parts(s), r);
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

LevelResult sums_level(Comm& world, const DeviceChoice& choice, size_t bytes, int iterations, const Cluster* cluster) {
    const Clock::time_point began = Clock::now();
    Tournament tournament(world, choice, iterations);
    NodeSums s = tournament.all_together({bytes / 512, bytes / 64, bytes / 8, bytes});
    tournament.each_inside(s, bytes);
    tournament.each_pair(s, bytes, [](size_t, size_t) { return true; });
    // Another program may have slowed a node inside, or a single pair: measure these again.
    for (int again = 0; again < 2; ++again) {
        const SlowParts found = slow_parts(s);
        if (!found.inside.empty()) tournament.each_inside(s, bytes);
        tournament.each_pair(s, bytes, [&](size_t a, size_t b) {
            return std::ranges::find(found.pairs, std::pair(a, b)) != found.pairs.end();
        });
    }
    s.wrong = world.gather_all(tournament.wrong());
    LevelResult r = judge_sums(
        s, bytes,
        cluster ? expected_sums(*cluster, s, bytes, tournament.ranks_per_node(), tournament.gpu()) : ExpectedSums{});
    r.seconds = seconds_since(began);
    return r;
}

}  // namespace convoy
