// convoy info: versions, and the table of ranks with their hosts and devices.
#include <cstdio>

#include "backend/backend.h"
#include "base/version.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/versions.h"
#include "comm/comm.h"

namespace convoy {

int info(Comm& comm, const std::vector<std::string>& args) {
    comm.together([&] { parse(boost::program_options::options_description(), args); });
    const std::unique_ptr<Backend> backend = make_backend("auto", {}, comm);
    const std::vector<std::string> hosts = comm.gather_all(comm.host()), devices = comm.gather_all(backend->device());
    const std::vector<double> counts = comm.gather_all(std::vector<double>{double(backend->threads())});
    if (!comm.root()) return 0;
    std::printf("%-12s %s (%s)\n", "convoy", version, commit());
    for (const auto& [library, text] : library_versions()) std::printf("%-12s %s\n", library.c_str(), text.c_str());
    const std::string reason = cuda_unavailable();
    std::printf("%-12s %s\n\nrank  host              threads  device\n", "cuda", reason.empty() ? "available" : reason.c_str());
    for (int r = 0; r < comm.size(); ++r) std::printf("%4d  %-16s  %7d  %s\n", r, hosts[r].c_str(), int(counts[r]), devices[r].c_str());
    return 0;
}

}  // namespace convoy
