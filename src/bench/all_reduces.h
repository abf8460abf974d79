// The two tests of `convoy comm-test`, separate from its options. This repository's tests can
// therefore run them on a backend with a faulty all-reduce.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"

namespace convoy {

enum class AllReduceLines {
    plain,      ///< steps from 1, sums as whole numbers; a table of sizes with one time each
    toy,        ///< like the PyTorch script mmmg_toy.py: steps from 0, sums as 13.0
    nccl_tests  ///< the table of nccl-tests (bench/nccl_tests.h), with times out of place and in place
};
struct SmallAllReduces {
    int64_t steps;
    double sleep = 0;  ///< seconds after each step
    uint64_t seed = 1;
    AllReduceLines lines = AllReduceLines::plain;
};
/// All-reduces one small number per rank in each step. Every rank draws an integer from 0 to 10 and
/// prints it with the sum. It also draws the numbers of all other ranks and checks the sum.
/// Collective; throws Exit::comm on all ranks if a sum is wrong.
void all_reduce_small_numbers(Comm&, Backend&, const SmallAllReduces&);

/// The measured time of an all-reduce. Times are the slowest rank's mean; counts are of all ranks.
struct SizeTime {
    size_t bytes;
    double seconds;                             ///< in place
    double out_of_place_seconds = NAN;          ///< NaN: not measured
    int64_t wrong = 0, out_of_place_wrong = 0;  ///< elements
};
struct SizeTimes {
    std::vector<SizeTime> sizes;
    int64_t failures = 0;   ///< measurements with wrong elements, counted per rank
    std::string trouble{};  ///< this rank's first wrong elements; empty: none
};
/// Returns the expected seconds of an all-reduce of `bytes`; NaN: not known.
using ExpectedAllReduce = std::function<double(size_t bytes)>;

struct AllReduceSizes {
    std::vector<size_t> sizes;  ///< bytes, multiples of 4
    int64_t iterations = 20;    ///< timed all-reduces per size
    uint64_t seed = 1;
    ExpectedAllReduce expected{};  ///< adds columns to the plain table
    AllReduceLines lines = AllReduceLines::plain;
};
/// Times all-reduces of f32, in place and, for nccl_tests, out of place. Every rank checks every
/// element of every size once in each case. Prints the plain table, or nccl-tests' line of each
/// size without header and footer. Collective, with the same times on all ranks. Throws
/// Exit::out_of_memory. In the plain table, a wrong element throws Exit::comm on all ranks.
SizeTimes measure_all_reduces(Comm&, Backend&, const AllReduceSizes&);

/// Throws Exit::comm on all ranks if some rank has `trouble`. Every such rank reports its own.
/// Collective.
void check_sums(Comm&, const std::string& trouble);

/// Untimed all-reduces of each kind before the timed ones. There are two, because a GPU captures a
/// tape when it runs for the second time.
constexpr int all_reduce_warmup = 2;

/// Returns the mean bus bandwidth [bytes/s] over all measurements, in place and out of place.
double mean_bus_bandwidth(const std::vector<SizeTime>&, int ranks);

/// Returns the bytes that a ring of n ranks sends over each link per reduced byte: busbw = algbw *
/// bus_factor(n).
constexpr double bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

}  // namespace convoy
