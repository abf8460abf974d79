#include "accept/inventory.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "accept/busy_processes.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/binding.h"
#include "comm/comm.h"

namespace convoy {
namespace {

constexpr char separator = '\t';  // printable() leaves none in a text

std::string line_of(const std::vector<std::string>& texts) {
    std::vector<std::string> shown;
    for (const std::string& text : texts) shown.push_back(printable(text));
    return joined(shown, std::string(1, separator)) + "\n";
}

/// The processes of this job, and the processors on which its ranks on this node run, "0-7".
struct OwnProcesses {
    std::vector<ProcessTime> all;
    std::string processors;
};

/// Gathers the processes of all ranks, and the processors of this node's ranks. Collective.
OwnProcesses own_processes(Comm& comm) {
    const ProcessTime own = own_process();
    OwnProcesses found;
    for (const std::string& text : comm.gather_all(std::to_string(own.pid) + separator + own.program)) {
        const size_t end = text.find(separator);
        found.all.push_back({std::atoi(text.c_str()), text.substr(end + 1), 0});
    }
    found.processors = joined(comm.gather_node(processors_of("self")), ",");
    return found;
}

/// Watches which other processes compute on the same processors. Blocks for a third of a second.
std::string disturbance(const std::string& root, const OwnProcesses& own) {
    const auto start = Clock::now();
    const std::vector<ProcessTime> before = process_times(root);
    std::this_thread::sleep_for(std::chrono::milliseconds(330));
    const std::vector<ProcessTime> after = process_times(root);
    const std::vector<BusyProcess> busy = busy_between(before, after, seconds_since(start), own.all);
    const int processors = hwloc_bitmap_weight(cpu_set(own.processors).get());
    return disturbance_by(sharing(busy, own.processors, root), processors);
}

bool is_about_gpu(const std::string& fact) { return fact.starts_with("gpu"); }

/// Returns the version of the driver without that of CUDA: "580.65.06, CUDA up to 13.0" is
/// "580.65.06".
std::string without_cuda(const std::string& driver) { return driver.substr(0, driver.find(", CUDA")); }

void add_to_node(const Versions& versions, const Facts& environment, Facts& facts) {
    for (const auto& [name, version] : versions)
        facts.emplace_back(name, name == "driver" ? without_cuda(version) : version);
    for (const auto& fact : environment)
        if (!is_about_gpu(fact.first) && value_of(facts, fact.first).empty()) facts.push_back(fact);
}

}  // namespace

std::string encoded(const RankInventory& rank) {
    std::string text = line_of({rank.host, std::to_string(rank.ranks)});
    for (const auto& [name, value] : rank.node) text += line_of({"node", name, value});
    for (const auto& [name, value] : rank.device) text += line_of({"device", name, value});
    return text;
}

RankInventory decoded(const std::string& text) {
    const std::vector<std::string> lines = split(text, '\n'), first = split(lines.at(0), separator);
    RankInventory rank{.host = first.at(0), .ranks = std::atoi(first.at(1).c_str())};
    for (size_t i = 1; i < lines.size(); ++i) {
        std::vector<std::string> fact = split(lines[i], separator);
        fact.resize(3);  // split() drops an empty part at the end
        (fact[0] == "node" ? rank.node : rank.device).emplace_back(fact[1], fact[2]);
    }
    return rank;
}

std::vector<NodeInventory> nodes_of(const std::vector<RankInventory>& ranks) {
    std::vector<NodeInventory> nodes;
    for (size_t r = 0; r < ranks.size(); ++r) {
        auto node = std::ranges::find(nodes, ranks[r].host, &NodeInventory::host);
        if (node == nodes.end()) node = nodes.insert(node, {.host = ranks[r].host, .ranks = ranks[r].ranks});
        if (node->facts.empty()) node->facts = ranks[r].node;
        node->devices.push_back({int(r), ranks[r].device});
    }
    return nodes;
}

LevelResult inventory_level(Comm& comm, const Versions& versions, const Facts& environment, const Facts& health,
                            const NodeSource& source) {
    const auto start = Clock::now();
    const OwnProcesses own = own_processes(comm);
    RankInventory mine{.host = comm.host(), .ranks = comm.local_size()};
    std::copy_if(environment.begin(), environment.end(), std::back_inserter(mine.device),
                 [](const auto& fact) { return is_about_gpu(fact.first); });
    mine.device.insert(mine.device.end(), health.begin(), health.end());
    comm.together([&] {
        if (comm.local_rank() != 0) return;
        mine.node = node_facts(source);
        add_to_node(versions, environment, mine.node);
        if (const std::string others = disturbance(source.root, own); !others.empty())
            mine.node.emplace_back("other processes", others);
    });
    std::vector<RankInventory> ranks;
    for (const std::string& text : comm.gather_all(encoded(mine))) ranks.push_back(decoded(text));
    LevelResult result = compare_inventories(nodes_of(ranks));
    result.seconds = seconds_since(start);
    comm.broadcast(&result.seconds, sizeof result.seconds);
    return result;
}

}  // namespace convoy
