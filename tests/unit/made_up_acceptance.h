// A made-up acceptance of four hosts with two ranks each: all levels, with figures for every
// picture. One host has another driver, a slow pair, a slow rank and slow reading.
#pragma once
#include <string>

#include "accept/acceptance.h"
#include "accept/endurance.h"
#include "accept/input.h"
#include "accept/speed.h"
#include "accept/sums.h"
#include "tests/unit/made_up_cluster.h"

namespace convoy::test {

/// The name of the last host. It holds everything that HTML, XML and JSON give a meaning.
inline const std::string odd_host = "n3<b>&\"'";

inline std::string made_up_host(size_t node) { return node == 3 ? odd_host : "n" + std::to_string(node); }

/// Bandwidths of four hosts, by pair (10 + a + b) GB/s; that of n0 and n1 is 2 GB/s.
inline NodeSums made_up_sums() {
    NodeSums s{.hosts = {}, .inside = {20e9, 21e9, 22e9, 23e9}, .pairs = {}, .all = 8e9};
    for (size_t a = 0; a < 4; ++a) {
        s.hosts.push_back(made_up_host(a));
        s.pairs.emplace_back();
        for (size_t b = 0; b < 4; ++b) s.pairs[a].push_back(a == b ? 0 : (10 + double(a + b)) * 1e9);
    }
    s.pairs[0][1] = s.pairs[1][0] = 2e9;
    s.by_size = {{8192, 1e8}, {65536, 1e9}, {524288, 4e9}, {4194304, 8e9}};
    return s;
}

/// Eight ranks; rank 5, on n2, is slow.
inline std::vector<RankSpeed> made_up_speeds() {
    std::vector<RankSpeed> ranks;
    for (size_t i = 0; i < 8; ++i)
        ranks.push_back({.host = made_up_host(i / 2),
                         .device = "rank " + std::to_string(i),
                         .kind = "gpu",
                         .alone = i == 5 ? 500 : 1000 + double(i),
                         .beside = i == 5 ? 490 : 990 + double(i),
                         .clock_hz = 1.4e9,
                         .celsius = 50 + double(i)});
    return ranks;
}

inline Acceptance made_up_acceptance() {
    std::vector<NodeInventory> nodes = cluster(4);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i].host = made_up_host(i);
    set(nodes[3].facts, "driver", "570.1");
    std::vector<RankEndurance> endurance;
    for (size_t i = 0; i < 8; ++i)
        endurance.push_back(
            {made_up_host(i / 2), i == 1 ? "step 2 after 7 s" : "", {{1, 100, 1.4e9, 50}, {2, 99, 1.3e9, 60}}});
    LevelResult bits{.level = "bits", .figure = "8 of 8 devices have the bits of their kind", .seconds = 2.25};
    bits.add({.name = "devices", .unit = "1", .value = 8});
    return {.version = "1.2",
            .commit = "abc",
            .began = "2026-01-02T03:04:05Z",
            .host = "n0",
            .nodes = 4,
            .ranks = 8,
            .levels = {compare_inventories(nodes), judge_sums(made_up_sums(), 4 << 20), bits,
                       compare_speeds(made_up_speeds(), 6000),
                       judge_reading({{"n0", 4e9, 1, 8}, {"n1", 4e9, 4, 8}, {"n2", 4e9, 1, 8}, {odd_host, 4e9, 1, 8}},
                                     {"n0", 4e9, 0.5, 8}),
                       judge_endurance(endurance, 200, 2.5)},
            .not_run = {},
            .hosts = {"n0", "n0", "n1", "n1", "n2", "n2", odd_host, odd_host},
            .options = {{"level", "quick"}, {"data", "/data/<x>"}, {"minutes", ""}}};
}

}  // namespace convoy::test
