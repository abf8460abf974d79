#include "comm/binding.h"

#include <algorithm>
#include <cstdlib>

#include "comm/native.h"

namespace convoy {
namespace {

CpuSet empty_set() { return {hwloc_bitmap_alloc(), hwloc_bitmap_free}; }

/// Returns the smallest part of the machine with memory and cores to which a PCI device is
/// attached; null if the bus is not known.
hwloc_obj_t neighbourhood(const Machine& machine, const std::string& bus) {
    const hwloc_obj_t device = bus.empty() ? nullptr : hwloc_get_pcidev_by_busidstring(machine.get(), bus.c_str());
    return device ? hwloc_get_non_io_ancestor_obj(machine.get(), device) : nullptr;
}

std::string numa_nodes_of(const Machine& machine, const CpuSet& set) {
    const CpuSet nodes = empty_set();
    hwloc_cpuset_to_nodeset(machine.get(), set.get(), nodes.get());
    return list_of(nodes);
}

/// Returns the names of the network cards attached to the same part of the machine.
std::string cards_near(const Machine& machine, hwloc_obj_t place) {
    std::string names;
    for (hwloc_obj_t d = nullptr; (d = hwloc_get_next_osdev(machine.get(), d));) {
        const bool network =
            d->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS || d->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
        if (network && place && hwloc_get_non_io_ancestor_obj(machine.get(), d) == place)
            names += (names.empty() ? "" : ", ") + std::string(d->name);
    }
    return names;
}

}  // namespace

Machine::Machine() : topology_(nullptr, hwloc_topology_destroy) {
    hwloc_topology_t t = nullptr;
    hwloc_topology_init(&t);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_load(t);
    topology_.reset(t);
}

Machine::Machine(const char* synthetic) : topology_(nullptr, hwloc_topology_destroy) {
    hwloc_topology_t t = nullptr;
    hwloc_topology_init(&t);
    hwloc_topology_set_synthetic(t, synthetic);
    hwloc_topology_load(t);
    topology_.reset(t);
}

CpuSet cpu_set(const std::string& list) {
    CpuSet set = empty_set();
    hwloc_bitmap_list_sscanf(set.get(), list.c_str());
    return set;
}

std::string list_of(const CpuSet& set) {
    char* text = nullptr;
    hwloc_bitmap_list_asprintf(&text, set.get());
    const std::string copy = text ? text : "";
    std::free(text);
    return copy;
}

std::vector<std::string> share_out(const Machine& machine, const std::vector<Unbound>& ranks) {
    std::vector<std::string> result(ranks.size());
    for (const Unbound& r : ranks)
        if (r.allowed != ranks[0].allowed) return result;
    const auto place_of = [&](const Unbound& r) {
        CpuSet place = cpu_set(r.allowed), near = cpu_set(r.near);
        if (!r.near.empty() && hwloc_bitmap_intersects(place.get(), near.get()))
            hwloc_bitmap_and(place.get(), place.get(), near.get());
        return list_of(place);
    };
    for (size_t r = 0; r < ranks.size(); ++r) {
        const std::string place = place_of(ranks[r]);
        int before = 0, together = 0;  // ranks at the same place
        for (size_t other = 0; other < ranks.size(); ++other)
            if (place_of(ranks[other]) == place) {
                before += other < r;
                ++together;
            }
        const CpuSet set = cpu_set(place), mine = empty_set();
        std::vector<hwloc_obj_t> cores;
        for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(machine.get(), HWLOC_OBJ_CORE, core));)
            if (hwloc_bitmap_intersects(core->cpuset, set.get())) cores.push_back(core);
        const int count = int(cores.size());
        if (together > count) continue;
        for (int i = count * before / together; i < count * (before + 1) / together; ++i)
            hwloc_bitmap_or(mine.get(), mine.get(), cores[i]->cpuset);
        hwloc_bitmap_and(mine.get(), mine.get(), set.get());
        result[r] = list_of(mine);
    }
    return result;
}

std::string bind_rank(Comm& comm, const std::string& bus, bool wanted) {
    static const Machine machine;  // loading its topology takes tens of milliseconds
    const CpuSet allowed = empty_set();
    hwloc_get_cpubind(machine.get(), allowed.get(), HWLOC_CPUBIND_THREAD);
    const hwloc_obj_t place = neighbourhood(machine, bus);
    const CpuSet near = empty_set();
    if (place) hwloc_bitmap_copy(near.get(), place->cpuset);

    int leader = comm.rank();  // identifies the node, because host names need not be unique
    MPI_Bcast(&leader, 1, MPI_INT, 0, comm.native().node);
    const std::vector<double> nodes = comm.gather_all(std::vector<double>{double(leader)});
    const std::vector<std::string> all = comm.gather_all(list_of(allowed) + " " + list_of(near));
    std::vector<Unbound> ranks;
    size_t own = 0;
    for (int r = 0; r < comm.size(); ++r) {
        if (nodes[r] != leader) continue;
        if (r == comm.rank()) own = ranks.size();
        const size_t space = all[r].find(' ');
        ranks.push_back({all[r].substr(0, space), all[r].substr(space + 1)});
    }
    const std::string share = wanted ? share_out(machine, ranks)[own] : "";
    const CpuSet target = cpu_set(share.empty() ? list_of(allowed) : share);
    const bool bound = !share.empty() && hwloc_set_cpubind(machine.get(), target.get(), HWLOC_CPUBIND_THREAD) == 0;
    const std::string cards = cards_near(machine, place);
    const std::string now = list_of(bound ? target : allowed);
    const std::string single = now.find_first_of(",-") == std::string::npos ? "processor " : "processors ";
    return single + now + " of NUMA node " + numa_nodes_of(machine, bound ? target : allowed) +
           (cards.empty() ? "" : "; " + cards + " is near");
}

}  // namespace convoy
