// The output of `convoy comm-test --bytes` besides its table: a verdict on the times, and the table
// as JSON.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "bench/all_reduces.h"
#include "bench/nccl_tests.h"

namespace convoy {

struct AllReduceResult {
    int ranks = 1, hosts = 1, ranks_per_host = 1;
    std::string device, device_kind;  ///< of rank 0; "cpu" or "gpu"
    std::string transport;            ///< transport of all-reduces, as DeviceFacts::transport names it
    Versions versions;
    Facts environment;
    SizeTimes times;
};

/// Formats the result as one line of JSON, without a line break, in seconds, bytes and bytes/s. If
/// `run` is given, the keys of nccl-tests stand before ours. Our key `version` is then called
/// `convoy_version`, because theirs is `version`. `at_least`: as in nccl_tests_footer().
std::string all_reduce_json(const AllReduceResult&, const NcclTestsRun* run = nullptr, double at_least = NAN);

/// Returns one line about the median of expected / measured time at sizes of 8 MiB and more. If
/// that is below 0.8, the line names the usual causes. `by_nccl`: true for NCCL, false for MPI.
std::string verdict_on_all_reduces(const std::vector<SizeTime>&, const ExpectedAllReduce& expected, bool by_nccl);

/// Returns one line about the first size that took less time than a smaller one; empty if there is
/// none. read_measured_all_reduces() refuses such a table.
std::string warning_of_falling_times(const std::vector<SizeTime>&);

}  // namespace convoy
