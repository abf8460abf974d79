// What `convoy comm-test --bytes` says after its table: whether the times are as expected, and the
// table as JSON.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "bench/sums.h"

namespace convoy {

struct SumsResult {
    int ranks = 1, hosts = 1, ranks_per_host = 1;
    std::string device, device_kind;  ///< of rank 0; "cpu" or "gpu"
    std::string transport;            ///< how the sums travel, as Backend::transport
    Versions versions;
    Facts environment;
    std::vector<SizeTime> sizes;
};

/// One line of JSON, without a line break: seconds, bytes, bytes/s.
std::string sums_json(const SumsResult&);

/// One line about the median of expected / measured at 8 MiB and more: as expected, or what usually
/// makes sums slower. `by_nccl`: else by MPI.
std::string verdict_on_sums(const std::vector<SizeTime>&, const ExpectedSum& expected, bool by_nccl);

/// One line about the first size whose sum took less time than a smaller one; empty if there is
/// none. read_measured_sums refuses such a table.
std::string warning_of_falling_times(const std::vector<SizeTime>&);

}  // namespace convoy
