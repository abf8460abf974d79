#include "accept/fact_rules.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string_view>

#include "accept/node_facts.h"
#include "base/text.h"

namespace convoy {
namespace {

using enum Outcome;

// A difference fails if nodes may then compute or communicate differently, which includes slower
// links. Other differences warn.
const std::vector<FactRule> rules = {
    {.name = "driver", .outcome = fail, .drain = true},
    {.name = "cuda", .outcome = fail, .drain = true},
    {.name = "kernels", .outcome = fail, .drain = true},
    {.name = "cudnn", .outcome = fail, .drain = true},
    {.name = "nccl", .outcome = fail, .drain = true},
    {.name = "mpi", .outcome = fail, .drain = true},
    {.name = "onednn", .outcome = fail, .drain = true},
    {.name = "kernel", .outcome = fail, .drain = true},
    {.name = "os"},
    {.name = "hdf5"},
    {.name = "boost"},
    {.name = "openssl"},
    {.name = "libarchive"},
    {.name = "libjpeg"},
    {.name = "libpng"},
    {.name = "libwebp"},
    {.name = "giflib"},
    {.name = "libtiff"},
    {.name = "cpu"},
    {.name = "product"},
    {.name = "BIOS", .of_model = true},
    {.name = "microcode", .of_model = true},
    {.name = "cores", .of_model = true, .worse = Worse::less},
    {.name = "SMT", .of_model = true},
    {.name = "governor", .of_model = true},
    {.name = "NUMA nodes", .of_model = true},
    {.name = "memory", .of_model = true, .worse = Worse::less, .roughly = true},
    {.name = "clock source"},
    {.name = "transparent huge pages"},
    {.name = "reserved huge pages"},
    {.name = "/dev/shm", .worse = Worse::less, .roughly = true},
    {.name = "CPU quota"},
    {.name = "memory limit"},
    {.name = "module ", .worse = Worse::off},
    {.name = " state", .outcome = fail, .drain = true, .worse = Worse::down},
    {.name = " speed", .outcome = fail, .drain = true, .worse = Worse::less},
    {.name = " rate", .outcome = fail, .drain = true, .worse = Worse::less},
    {.name = " slot", .outcome = fail, .drain = true, .worse = Worse::less},
    {.name = " MTU"},
    {.name = " firmware"},
    {.name = "gpu"},
    {.name = "VBIOS", .of_model = true},
    {.name = "ECC", .outcome = fail, .drain = true, .of_model = true, .worse = Worse::off},
    {.name = "MIG", .of_model = true},
    {.name = "persistence", .worse = Worse::off},
    {.name = "power limit", .of_model = true, .worse = Worse::less},
    {.name = "highest clock", .of_model = true, .worse = Worse::less},
    {.name = "NVLinks", .outcome = fail, .drain = true, .of_model = true, .worse = Worse::less},
};

/// Adds a fault if a counter is not zero: "3 uncorrected ECC errors".
void add_count(const Facts& facts, const std::string& name, std::vector<Fault>& faults, Outcome outcome = warn) {
    const std::string count = value_of(facts, name);
    if (leading_number(count) > 0) faults.push_back({name, count + " " + name, outcome, outcome == fail});
}

/// Returns true for a width below the widest: "x8 of x16", "8 of 16".
bool is_narrow(const std::string& width) {
    const size_t of = width.find(" of ");
    return of != std::string::npos && leading_number(width) < leading_number(width.substr(of + 4));
}

/// Returns how much /dev/shm NCCL or MPI may need, in GiB. NCCL recommends 1 GiB in containers.
/// Allows 8 MiB per rank, and at least 32 MiB, because Open MPI maps 4 MiB per rank or more.
double shared_memory_needed(int ranks, bool on_gpus) { return on_gpus ? 1 : std::max(0.03125, ranks * 0.0078125); }

void add_shared_memory(const Facts& facts, int ranks, bool on_gpus, std::vector<Fault>& faults) {
    const std::string name = "free in /dev/shm", free = value_of(facts, name);
    const double needed = shared_memory_needed(ranks, on_gpus);
    if (!free.empty() && leading_number(free) < needed)
        faults.push_back(
            {name, formatted("%.0f MiB free in /dev/shm, %.0f needed", leading_number(free) * 1024, needed * 1024)});
}

}  // namespace

double leading_number(const std::string& text) {
    const bool letter = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0]));
    return std::strtod(text.c_str() + letter, nullptr);
}

std::string label_of(const std::string& fact) {
    static const std::map<std::string, std::string> labels = {
        {"cuda", "CUDA"}, {"cudnn", "cuDNN"}, {"nccl", "NCCL"}, {"mpi", "MPI"}, {"onednn", "oneDNN"},
        {"os", "OS"},     {"hdf5", "HDF5"},   {"cpu", "CPU"},   {"gpu", "GPU"}, {"openssl", "OpenSSL"}};
    const auto found = labels.find(fact);
    return found == labels.end() ? fact : found->second;
}

const FactRule* rule_for(const std::string& fact) {
    const auto found = std::ranges::find_if(rules, [&](const FactRule& rule) {
        if (rule.name.starts_with(' ')) return fact.ends_with(rule.name);
        return rule.name.ends_with(' ') ? fact.starts_with(rule.name) : fact == rule.name;
    });
    return found == rules.end() ? nullptr : &*found;
}

bool is_worse(Worse worse, const std::string& text, const std::string& best) {
    switch (worse) {
        case Worse::unknown: return false;
        case Worse::off: return text == "off" || text == "not loaded";
        case Worse::down: return text != "up" && text != "ACTIVE";
        case Worse::less: return leading_number(text) < leading_number(best);
    }
    return false;
}

std::vector<Fault> faults_of_node(const Facts& facts, int ranks, bool on_gpus) {
    constexpr std::string_view errors = " errors", of_memory = "memory errors";
    std::vector<Fault> faults;
    add_count(facts, "uncorrected memory errors", faults, fail);
    add_count(facts, "corrected memory errors", faults);
    if (const std::string governor = value_of(facts, "governor"); governor.find("powersave") != std::string::npos)
        faults.push_back({"governor", "governor " + governor});
    for (const char* slow : {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"})
        if (value_of(facts, "clock source") == slow)
            faults.push_back({"clock source", std::string("slow clock source ") + slow});
    add_shared_memory(facts, ranks, on_gpus, faults);
    for (const auto& [name, text] : facts) {
        if (name.ends_with(errors) && !name.ends_with(of_memory))
            faults.push_back({name, name.substr(0, name.size() - errors.size()) + " counted " + text});
        if (name.ends_with(" slot") && is_narrow(text)) faults.push_back({name, name + " " + text});
    }
    if (const std::string others = value_of(facts, "other processes"); !others.empty())
        faults.push_back({"other processes", "disturbed by " + others.substr(0, others.find(" (pid"))});
    return faults;
}

std::vector<Fault> faults_of_gpu(const Facts& facts) {
    std::vector<Fault> faults;
    if (value_of(facts, "temperature").empty())
        faults.push_back({"", "NVML does not answer: errors, links and clocks were not checked"});
    add_count(facts, "uncorrected ECC errors", faults, fail);
    for (const char* fault : {"row remapping pending", "row remapping failed", "page retirement pending"})
        if (value_of(facts, fault) == "yes") faults.push_back({fault, fault, fail, true});
    if (const std::string width = value_of(facts, "PCIe width"); is_narrow(width))
        faults.push_back({"PCIe width", "PCIe width " + width, fail, true});
    // The lifetime counter includes the errors since the start, which were counted above.
    if (faults.empty() || faults.front().fact != "uncorrected ECC errors")
        add_count(facts, "lifetime uncorrected ECC errors", faults);
    for (const char* counter : {"corrected ECC errors", "remapped rows", "PCIe replays", "NVLink errors"})
        add_count(facts, counter, faults);
    if (const std::string next = value_of(facts, "ECC after a restart");
        !next.empty() && next != value_of(facts, "ECC"))
        faults.push_back({"ECC", "ECC will be " + next + " after a restart"});
    if (const std::string why = value_of(facts, "throttled by"); !why.empty() && why != "nothing")
        faults.push_back({"throttled by", "throttled by " + why});
    if (const std::string others = value_of(facts, "other processes"); !others.empty())
        faults.push_back({"other processes", "in use by " + others});
    return faults;
}

}  // namespace convoy
