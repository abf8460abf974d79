// The output of nccl-tests' all_reduce_perf, version 2.19.6, for programs that read it: its table,
// and the keys of its JSON. Times are the slowest rank's mean, as with its option -a 3. Its default
// is the mean over ranks.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/all_reduces.h"

namespace convoy {

struct NcclTestsRank {
    int64_t process = 0;
    std::string host;
    int device = 0;    ///< index of the rank on its host
    std::string name;  ///< of the device
};

/// The facts about a run that stand above the table and in the JSON.
struct NcclTestsRun {
    std::vector<NcclTestsRank> ranks{};
    size_t smallest = 0, largest = 0;  ///< bytes
    int64_t iterations = 0;
    bool graph = false;  ///< all-reduces are replayed from a CUDA graph
    int nccl = 0;        ///< NCCL's version code: 22703 is 2.27.3; 0: all-reduces by MPI
    std::vector<std::string> command_line{};
    std::string start_time{}, end_time{};
};

/// Returns NCCL's version code for a text such as "2.27.3"; 0 for a text without three numbers.
int nccl_version_code(const std::string& text);

/// Returns the lines above the first size.
std::string nccl_tests_header(const NcclTestsRun&);
/// Returns the line of one size.
std::string nccl_tests_row(const SizeTime&, int ranks);
/// Returns the lines below the last size. `at_least`: GB/s that the mean must reach; NaN: none.
std::string nccl_tests_footer(const SizeTimes&, int ranks, double at_least);
/// Returns the keys of the JSON. The list of environment variables stays empty, because variables
/// may hold secrets.
nlohmann::ordered_json nccl_tests_json(const NcclTestsRun&, const SizeTimes&, double at_least);

}  // namespace convoy
