// Parses cluster files line by line, so that a mistake can be reported with its line number.
#include "report/cluster_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "comm/comm.h"
#include "model/models.h"
#include "model/precision.h"
#include "report/measured_all_reduces.h"

namespace convoy {
namespace {

constexpr const char* advice = "a cluster file is lines of key = value; jobs/CLUSTER_FILES.md lists the keys";
constexpr double microsecond = 1e-6, gigabyte = 1e9;

/// The text after the '=' of a line, and the texts that messages about it need.
struct Value {
    std::string text;
    std::string where;  ///< "FILE:LINE: KEY: ", for messages
    const char* takes;  ///< the allowed values, in words
    std::filesystem::path folder;

    [[noreturn]] void refuse(const std::string& what) const {
        fail(Exit::bad_input, where + "'" + what + "' is not allowed; it takes " + takes);
    }
    double number(const std::string& word, double low, double high) const {
        double value = 0;
        const char* end = word.data() + word.size();
        const auto [rest, error] = std::from_chars(word.data(), end, value);
        if (error != std::errc() || rest != end || !(value >= low && value <= high)) refuse(word);
        return value;
    }
    /// Returns GB/s as bytes/s. Refuses values that no machine reaches: their unit is wrong.
    double rate() const { return number(text, 1e-3, 1e5) * gigabyte; }
    int whole(const std::string& word, int high) const {
        const double value = number(word, 1, high);
        if (value != double(int(value))) refuse(word);
        return int(value);
    }
    template <class T, size_t n> T one_of(const std::array<std::pair<const char*, T>, n>& choices) const {
        for (const auto& [name, value] : choices)
            if (text == name) return value;
        refuse(text);
    }
};

KnownStep step_of(const Value& v) {
    const std::vector<std::string> words = words_of(v.text), models = model_names();
    if (words.size() != 4 && words.size() != 5) v.refuse(v.text);
    if (std::find(models.begin(), models.end(), words[0]) == models.end())
        fail(Exit::bad_input, v.where + "there is no model '" + words[0] + "'" +
                                  did_you_mean(words[0], models, "convoy train --help lists them"));
    constexpr std::array precisions = {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16};
    if (std::none_of(precisions.begin(), precisions.end(), [&](Precision p) { return words[1] == name_of(p); }))
        v.refuse(words[1]);
    return {.model = words[0],
            .precision = words[1],
            .fixed = 1e-3 * v.number(words[2], 0, 1e6),
            .per_sample = microsecond * v.number(words[3], 1e-6, 1e9),
            .ranks_per_node = words.size() == 5 ? v.whole(words[4], 1024) : 1};
}

void add_step(Cluster& c, const Value& v) {
    const KnownStep step = step_of(v);
    for (const KnownStep& s : c.steps)
        if (s.model == step.model && s.precision == step.precision)
            fail(Exit::bad_input,
                 v.where + step.model + " in " + step.precision + " has a line already; leave one out");
    c.steps.push_back(step);
}

void add_table(Cluster& c, const Value& v) {
    std::vector<MeasuredAllReduce> all_reduces;
    try {
        all_reduces = read_measured_all_reduces((v.folder / v.text).string());
    } catch (const Error& error) {
        fail(error.code, v.where + error.what());
    }
    for (const MeasuredAllReduce& s : c.all_reduces)
        if (s.nodes == all_reduces[0].nodes && s.ranks_per_node == all_reduces[0].ranks_per_node)
            fail(Exit::bad_input, v.where + formatted("another table is for %d ranks on %d hosts, too; leave one out",
                                                      s.nodes * s.ranks_per_node, s.nodes));
    constexpr size_t most_sizes = 1000;  // every step that is fitted looks at all of them
    if (c.all_reduces.size() + all_reduces.size() > most_sizes)
        fail(Exit::bad_input, v.where + formatted("the tables have more than %zu sizes together; measure fewer, or "
                                                  "leave a table out",
                                                  most_sizes));
    c.all_reduces.insert(c.all_reduces.end(), all_reduces.begin(), all_reduces.end());
}

constexpr std::array<std::pair<const char*, GpuGeneration>, 4> gpus = {{{"volta", GpuGeneration::volta},
                                                                        {"ampere", GpuGeneration::ampere},
                                                                        {"hopper", GpuGeneration::hopper},
                                                                        {"blackwell", GpuGeneration::blackwell}}};
constexpr std::array<std::pair<const char*, NodeLink>, 2> links = {
    {{"nvlink", NodeLink::nvlink}, {"pcie", NodeLink::pcie}}};
constexpr std::array<std::pair<const char*, CpuVendor>, 3> cpus = {
    {{"intel", CpuVendor::intel}, {"amd", CpuVendor::amd}, {"other", CpuVendor::other}}};
constexpr std::array<std::pair<const char*, bool>, 2> yes_or_no = {{{"yes", true}, {"no", false}}};

struct Key {
    const char* name;
    const char* takes;
    void (*set)(Cluster&, const Value&);
    enum When : uint8_t { optional, repeated, always, several_nodes } when = optional;
};

constexpr const char* rate_takes = "GB/s (1e9 bytes), above 0 and at most 100000";

const std::array keys = {
    Key{"nodes", "a whole number from 1", [](Cluster& c, const Value& v) { c.nodes = v.whole(v.text, 1 << 20); },
        Key::always},
    Key{"gpus-per-node", "a whole number from 1 to 1024",
        [](Cluster& c, const Value& v) { c.ranks_per_node = v.whole(v.text, 1024); }, Key::always},
    Key{"gpu", "volta, ampere, hopper or blackwell", [](Cluster& c, const Value& v) { c.gpu = v.one_of(gpus); }},
    Key{"link", "nvlink or pcie", [](Cluster& c, const Value& v) { c.link = v.one_of(links); }},
    Key{"node-bandwidth", rate_takes, [](Cluster& c, const Value& v) { c.node_bandwidth = v.rate(); }, Key::always},
    Key{"switch-bandwidth", "GB/s (1e9 bytes), at most 100000; 0: the node has no such switch",
        [](Cluster& c, const Value& v) { c.switch_bandwidth = v.text == "0" ? 0 : v.rate(); }},
    Key{"adapters", "a whole number from 1 to 64", [](Cluster& c, const Value& v) { c.adapters = v.whole(v.text, 64); },
        Key::several_nodes},
    Key{"adapter-bandwidth", rate_takes, [](Cluster& c, const Value& v) { c.adapter_bandwidth = v.rate(); },
        Key::several_nodes},
    Key{"verbs", "yes or no", [](Cluster& c, const Value& v) { c.verbs = v.one_of(yes_or_no); }},
    Key{"hop-latency", "microseconds, from 0 to 1000000",
        [](Cluster& c, const Value& v) { c.hop_latency = v.number(v.text, 0, 1e6) * microsecond; }},
    Key{"cpu", "intel, amd or other", [](Cluster& c, const Value& v) { c.cpu = v.one_of(cpus); }},
    Key{"ll128", "yes or no", [](Cluster& c, const Value& v) { c.ll128 = v.one_of(yes_or_no); }},
    Key{"channels", "a whole number from 1 to 64",
        [](Cluster& c, const Value& v) { c.channels = v.whole(v.text, 64); }},
    Key{"hierarchical", "yes or no", [](Cluster& c, const Value& v) { c.hierarchical = v.one_of(yes_or_no); }},
    Key{"input-rate", "images/s that a node reads, above 0",
        [](Cluster& c, const Value& v) { c.images_per_second = v.number(v.text, 1e-3, 1e12); }},
    Key{"step", "MODEL PRECISION MILLISECONDS MICROSECONDS [GPUS], as in resnet50 f16 3.8 135.2 8", add_step,
        Key::repeated},
    Key{"all-reduce-table", "a file that convoy comm-test --json wrote", add_table, Key::repeated},
    Key{"source", "text", [](Cluster&, const Value&) {}, Key::repeated}};

const Key& key_of(const std::string& name, const std::string& where) {
    std::vector<std::string> known;
    for (const Key& key : keys) {
        if (key.name == name) return key;
        known.emplace_back(key.name);
    }
    fail(Exit::bad_input, where + "there is no key '" + name + "'" + did_you_mean(name, known, advice));
}

void check_complete(const Cluster& c, const std::set<std::string>& given, const std::string& path) {
    for (const Key& key : keys) {
        const bool wanted = key.when == Key::always || (key.when == Key::several_nodes && c.nodes > 1);
        if (!wanted || given.contains(key.name)) continue;
        fail(Exit::bad_input, path + ": has no line '" + key.name + " = …'" +
                                  (key.when == Key::always ? "" : ", which several nodes need") + "; it takes " +
                                  key.takes);
    }
    if (given.contains("ll128") && c.ll128 && c.link == NodeLink::pcie)
        fail(Exit::bad_input, path + ": has ll128 = yes, but NCCL does not use LL128 over PCIe; leave it out");
    for (const MeasuredAllReduce& s : c.all_reduces)
        if (s.nodes > 1 && c.network_bandwidth() <= 0)
            fail(Exit::bad_input, path + ": has all-reduces of " + std::to_string(s.nodes) +
                                      " hosts, but no network; add adapters and adapter-bandwidth");
}

}  // namespace

Cluster read_cluster(const std::string& path) {
    std::istringstream in(config_of_input(path, "cluster file", advice));
    Cluster cluster;
    cluster.name = printable(std::filesystem::path(path).stem().string());
    std::set<std::string> given;
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
        const std::string where = path + ":" + std::to_string(number) + ": ";
        const std::string entry = without_comment(line);
        if (entry.empty()) continue;
        const std::optional<KeyValue> pair = key_and_value(entry);
        if (!pair) fail(Exit::bad_input, where + "is not of the form key = value; " + advice);
        const auto& [name, text] = *pair;
        const Key& key = key_of(name, where);
        if (text.empty()) fail(Exit::bad_input, where + name + ": its value is missing; it takes " + key.takes);
        if (!given.insert(name).second && key.when != Key::repeated)
            fail(Exit::bad_input, where + name + ": is given more than once");
        key.set(cluster, {.text = text,
                          .where = where + name + ": ",
                          .takes = key.takes,
                          .folder = std::filesystem::path(path).parent_path()});
    }
    check_complete(cluster, given, path);
    return cluster;
}

RankLayout layout_of(Comm& comm) {
    return {.ranks = comm.size(),
            .hosts = int(comm.sum(int64_t(comm.local_rank() == 0))),
            .ranks_per_host = int(comm.max(comm.local_size()))};
}

Cluster read_cluster_for(const std::string& path, const RankLayout& l) {
    Cluster c = read_cluster(path);
    if (!l.even())
        fail(Exit::usage, formatted("--cluster: %d ranks are spread unevenly over %d hosts; start as many on each",
                                    l.ranks, l.hosts));
    if (l.hosts > c.nodes || l.ranks_per_host > c.ranks_per_node)
        fail(Exit::usage, formatted("--cluster %s: has nodes = %d and gpus-per-node = %d, but there are %d rank%s on "
                                    "%d host%s; start fewer, or correct the file",
                                    path.c_str(), c.nodes, c.ranks_per_node, l.ranks, l.ranks == 1 ? "" : "s", l.hosts,
                                    l.hosts == 1 ? "" : "s"));
    return c;
}

void require_network(const Cluster& c, int nodes) {
    if (nodes > 1 && c.network_bandwidth() <= 0)
        fail(Exit::usage, c.name + " has no network, so nothing can be said of " + std::to_string(nodes) +
                              " nodes; add adapters and adapter-bandwidth to the file");
}

}  // namespace convoy
