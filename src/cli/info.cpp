// convoy info: prints versions and a table of ranks with their hosts and devices. Or it describes a
// run, a model or a data set. Or it prints how the steps of a model run on a chip.
#include <algorithm>
#include <cstdio>

#include "backend/chips.h"
#include "backend/cpu_queries.h"
#include "backend/cuda_queries.h"
#include "backend/gpu/precisions.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/describe_file.h"
#include "cli/info_options.h"
#include "cli/versions.h"
#include "comm/comm.h"
#include "comm/network.h"

namespace convoy {

namespace {

/// Returns the precision. Throws Exit::usage for an unknown chip, or one that does not compute in
/// this precision.
Precision precision_of(const InfoOptions& o) {
    const int capability = o.chip == chip_of_cpu ? 0 : find_chip(o.chip, chip_of_cpu).capability;
    if (o.precision.empty()) return o.chip == chip_of_cpu ? Precision::bf16 : cuda::usual_precision(capability);
    const Precision precision = choose("precision", o.precision, precision_choices());
    if (o.chip != chip_of_cpu) cuda::check_precision(precision, capability, "--chip " + o.chip);
    return precision;
}

std::string plans_of(Comm& comm, const InfoOptions& o) {
    Precision precision{};
    Graph graph;
    comm.together([&] {
        precision = precision_of(o);
        graph = graph_of(o, precision);
    });
    if (o.chip == chip_of_cpu) return conv_table(graph, {.precision = precision}, comm);
    std::string table;
    comm.together([&] {
        if (comm.root()) table = plan_table(graph, {.batch = int(o.batch), .precision = precision}, o.chip);
    });
    return table;
}

void print_libraries() {
    Versions libraries = library_versions();
    for (const auto& library : cuda_versions()) libraries.push_back(library);
    for (const CudaLibrary& l : cuda_libraries())
        libraries.emplace_back("cuda library", l.path.empty() ? l.name + " is missing" : l.path);
    const std::string reason = cuda_unavailable();
    libraries.emplace_back("gpu", reason.empty() ? "available" : reason);
    for (const auto& [library, text] : libraries) std::printf("%-12s %s\n", library.c_str(), printable(text).c_str());
}

}  // namespace

int info(Comm& comm, const std::vector<std::string>& args) {
    InfoOptions options;
    comm.together([&] { options = parse_info(args); });
    if (!options.path.empty()) {
        comm.together([&] {
            if (comm.root()) std::fputs(description_of(options.path).c_str(), stdout);
        });
        return 0;
    }
    if (!options.plans.empty()) {
        const std::string plans = plans_of(comm, options);
        if (comm.root()) std::fputs(plans.c_str(), stdout);
        return 0;
    }
    const std::unique_ptr<Backend> backend = make_backend("auto", {}, comm);
    const std::vector<std::string> hosts = comm.gather_all(comm.host()),
                                   devices = comm.gather_all(backend->facts().device);
    const std::vector<std::string> places = comm.gather_all(backend->facts().placement),
                                   links = comm.gather_all(backend->facts().links),
                                   cards = comm.gather_all(network_cards());
    const std::vector<double> counts = comm.gather_all(std::vector<double>{double(backend->facts().threads)});
    if (!comm.root()) return 0;
    std::printf("%-12s %s (%s)\n", "convoy", version, commit());
    print_libraries();
    for (const auto& [name, text] : environment_of_run(*backend)) std::printf("%-12s %s\n", name.c_str(), text.c_str());
    std::printf("\nrank  host              threads  device\n");
    for (int r = 0; r < comm.size(); ++r)
        std::printf("%4d  %-16s  %7d  %s; %s%s%s\n", r, hosts[r].c_str(), int(counts[r]), devices[r].c_str(),
                    places[r].c_str(), links[r].empty() ? "" : "; ", links[r].c_str());
    std::printf("\nhost              network cards\n");
    for (int r = 0; r < comm.size(); ++r)
        if (std::find(hosts.begin(), hosts.begin() + r, hosts[r]) == hosts.begin() + r)
            std::printf("%-16s  %s\n", hosts[r].c_str(), cards[r].c_str());
    return 0;
}

}  // namespace convoy
