#include "accept/node_facts.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/control_groups.h"
#include "base/cpu_quota.h"
#include "base/folder.h"
#include "base/text.h"

namespace convoy {
namespace {
namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
    const std::vector<std::string> lines = lines_of(file.string());
    return lines.empty() ? "" : trimmed(lines[0]);
}

/// Returns what is in a folder, in the order of the names; empty if there is none.
std::set<fs::path> sorted_entries(const fs::path& folder) {
    std::error_code none;
    const std::vector<fs::path> all = entries_of(folder, none);
    return {all.begin(), all.end()};
}

std::optional<long long> whole_number(const std::string& text) {
    long long number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return number;
}

void add(Facts& facts, const std::string& name, const std::string& text) {
    if (!text.empty()) facts.emplace_back(name, printable(text));
}

std::string joined(const std::set<std::string>& texts) {
    return convoy::joined(std::vector<std::string>(texts.begin(), texts.end()), " and ");
}

std::string gib(double bytes) { return formatted("%.3f GiB", bytes / (1 << 30)); }

/// Returns the texts after "key:" of the lines of a file.
std::vector<std::string> entries_with(const std::string& key, const std::string& file) {
    std::vector<std::string> found;
    for (const std::string& line : lines_of(file)) {
        const size_t colon = line.find(':');
        if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key)
            found.push_back(trimmed(line.substr(colon + 1)));
    }
    return found;
}

/// Returns the distinct contents of `file` in the folders of all processors.
std::set<std::string> of_processors(const std::string& root, const std::string& file) {
    std::set<std::string> texts;
    for (const fs::path& cpu : sorted_entries(root + "/sys/devices/system/cpu")) {
        const std::string name = cpu.filename();
        if (name.starts_with("cpu") && whole_number(name.substr(3))) texts.insert(first_line(cpu / file));
    }
    texts.erase("");
    return texts;
}

void add_processors(const std::string& root, Facts& facts) {
    const std::string cpuinfo = root + "/proc/cpuinfo";
    const std::vector<std::string> microcode = entries_with("microcode", cpuinfo),
                                   packages = entries_with("physical id", cpuinfo),
                                   cores = entries_with("core id", cpuinfo);
    add(facts, "microcode", joined(std::set<std::string>(microcode.begin(), microcode.end())));
    std::set<std::string> different;
    for (size_t i = 0; i < std::min(packages.size(), cores.size()); ++i) different.insert(packages[i] + " " + cores[i]);
    if (!different.empty()) add(facts, "cores", std::to_string(different.size()));
    const std::string smt = first_line(root + "/sys/devices/system/cpu/smt/active");
    if (!smt.empty()) add(facts, "SMT", smt == "0" ? "off" : "on");
    add(facts, "governor", joined(of_processors(root, "cpufreq/scaling_governor")));
    add(facts, "NUMA nodes", first_line(root + "/sys/devices/system/node/online"));
    add(facts, "clock source", first_line(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource"));
}

/// Adds up a counter of all memory controllers that the kernel watches.
void add_memory_errors(const std::string& root, const std::string& file, const std::string& name, Facts& facts) {
    std::optional<long long> sum;
    for (const fs::path& controller : sorted_entries(root + "/sys/devices/system/edac/mc"))
        if (const auto count = whole_number(first_line(controller / file))) sum = sum.value_or(0) + *count;
    if (sum) add(facts, name, std::to_string(*sum));
}

void add_memory(const NodeSource& source, Facts& facts) {
    const std::string& root = source.root;
    const std::string choices = first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled");
    const size_t open = choices.find('['), close = choices.find(']');
    if (open < close && close != std::string::npos)
        add(facts, "transparent huge pages", choices.substr(open + 1, close - open - 1));
    for (const std::string& count : entries_with("HugePages_Total", root + "/proc/meminfo"))
        add(facts, "reserved huge pages", count);
    add_memory_errors(root, "ce_count", "corrected memory errors", facts);
    add_memory_errors(root, "ue_count", "uncorrected memory errors", facts);
    if (const auto space = source.space(root + "/dev/shm")) {
        add(facts, "/dev/shm", gib(space->bytes));
        add(facts, "free in /dev/shm", gib(space->free));
    }
}

void add_limits(const std::string& root, Facts& facts) {
    if (!is_there(root + "/proc/self/cgroup")) return;
    std::optional<double> processors;
    for (const CpuQuota& quota : cpu_quotas(root))
        processors = std::min(processors.value_or(quota.processors), quota.processors);
    add(facts, "CPU quota", processors ? formatted("%.3g processors", *processors) : "none");
    constexpr long long least_unlimited = 1ll << 60;  // in version 1, a larger number means no limit
    long long most = least_unlimited;
    for (const std::vector<ControlGroup>& nested : control_groups(root, "memory"))
        for (const ControlGroup& group : nested)
            if (const auto limit =
                    whole_number(first_line(group.folder + (group.unified ? "/memory.max" : "/memory.limit_in_bytes"))))
                most = std::min(most, *limit);
    add(facts, "memory limit", most < least_unlimited ? gib(double(most)) : "none");
}

void add_modules(const std::string& root, Facts& facts) {
    std::set<std::string> loaded;
    for (const std::string& line : lines_of(root + "/proc/modules")) loaded.insert(line.substr(0, line.find(' ')));
    const std::string modules = root + "/sys/module/";  // lists built-in modules too
    if (loaded.empty() && !is_there(modules)) return;
    for (const char* name : {"nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "nvidia_fs", "gdrdrv", "xpmem",
                             "knem", "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "lustre", "beegfs", "mmfs26"}) {
        if (!loaded.contains(name) && !is_there(modules + name)) {
            add(facts, std::string("module ") + name, "not loaded");
            continue;
        }
        const std::string version = first_line(modules + name + "/version");
        // Modules of the driver have its version, which is compared already.
        const bool of_driver = std::string(name).starts_with("nvidia");
        add(facts, std::string("module ") + name, version.empty() || of_driver ? "loaded" : version);
    }
}

/// Adds the width of the PCIe slot of a card, "x8 of x16". Virtual machines report impossible ones.
void add_slot(const std::string& card, const fs::path& device, Facts& facts) {
    constexpr long long widest = 32;
    const auto lanes = whole_number(first_line(device / "current_link_width")),
               most = whole_number(first_line(device / "max_link_width"));
    if (lanes && most && *lanes > 0 && *lanes <= *most && *most <= widest)
        add(facts, card + " slot", formatted("x%lld of x%lld", *lanes, *most));
}

/// Adds the counters that are not zero: "rx_errors 12, tx_errors 1".
void add_counters(const std::string& card, const fs::path& folder, const std::vector<std::string>& names,
                  Facts& facts) {
    std::vector<std::string> counted;
    for (const std::string& name : names)
        if (const auto count = whole_number(first_line(folder / name)); count && *count > 0)
            counted.push_back(name + " " + std::to_string(*count));
    add(facts, card + " errors", convoy::joined(counted, ", "));
}

void add_network(const std::string& root, Facts& facts) {
    std::vector<std::string> cards;
    for (const fs::path& folder : sorted_entries(root + "/sys/class/net")) {
        if (!is_there(folder / "device")) continue;  // loopback and bridges have none
        const std::string card = folder.filename();
        cards.push_back(card);
        add(facts, card + " state", first_line(folder / "operstate"));
        if (const auto megabits = whole_number(first_line(folder / "speed")); megabits && *megabits > 0)
            add(facts, card + " speed", formatted("%g Gb/s", double(*megabits) / 1e3));
        add(facts, card + " MTU", first_line(folder / "mtu"));
        add_slot(card, folder / "device", facts);
        add_counters(card, folder / "statistics", {"rx_errors", "tx_errors"}, facts);
    }
    for (const fs::path& folder : sorted_entries(root + "/sys/class/infiniband")) {
        const std::string card = folder.filename();
        add(facts, card + " firmware", first_line(folder / "fw_ver"));
        add_slot(card, folder / "device", facts);
        for (const fs::path& port : sorted_entries(folder / "ports")) {
            const std::string name = card + " port " + port.filename().string(), state = first_line(port / "state");
            cards.push_back(name);
            const bool active = state.ends_with("ACTIVE");  // "4: ACTIVE"
            add(facts, name + " state", state.substr(state.find(' ') + 1));
            if (active) add(facts, name + " rate", first_line(port / "rate"));
            add_counters(name, port / "counters",
                         {"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
                          "local_link_integrity_errors", "excessive_buffer_overrun_errors"},
                         facts);
        }
    }
    add(facts, "network cards", convoy::joined(cards, ", "));
}

}  // namespace

std::optional<FileSystemSpace> space_at(const std::string& path) {
    struct statvfs s{};
    if (::statvfs(path.c_str(), &s) != 0) return std::nullopt;
    return FileSystemSpace{double(s.f_blocks) * double(s.f_frsize), double(s.f_bavail) * double(s.f_frsize)};
}

Facts node_facts(const NodeSource& source) {
    Facts facts;
    for (const auto& [name, text] : facts_of_host(source.root))
        if (!text.starts_with("unknown")) add(facts, name, text);
    add(facts, "product", first_line(source.root + "/sys/class/dmi/id/product_name"));
    add(facts, "BIOS", first_line(source.root + "/sys/class/dmi/id/bios_version"));
    add_processors(source.root, facts);
    add_memory(source, facts);
    add_limits(source.root, facts);
    add_modules(source.root, facts);
    add_network(source.root, facts);
    return facts;
}

std::string value_of(const Facts& facts, const std::string& name) {
    const auto found = std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
    return found == facts.end() ? "" : found->second;
}

}  // namespace convoy
