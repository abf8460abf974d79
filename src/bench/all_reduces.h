// The two tests of `convoy comm-test`, separate from its options. So this repository's tests can
// run them on a backend with a faulty all-reduce.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"

namespace convoy {

enum class AllReduceLines {
    plain,  ///< steps from 1, sums as whole numbers
    toy     ///< like the PyTorch script: steps from 0, sums as 13.0
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

/// The measured time of an all-reduce.
struct SizeTime {
    size_t bytes;
    double seconds;  ///< the slowest rank's mean
};
/// Returns the expected seconds of an all-reduce of `bytes`; NaN: not known.
using ExpectedAllReduce = std::function<double(size_t bytes)>;

/// Times all-reduces of f32 of these sizes (bytes, multiples of 4), `iterations` each. Prints a
/// table like that of nccl-tests, with columns for expected times if `expected` is given. Every
/// rank checks every element of every size once. Collective, with the same result on all ranks.
/// Throws Exit::comm on all ranks if an element is wrong, and Exit::out_of_memory.
std::vector<SizeTime> measure_all_reduces(Comm&, Backend&, const std::vector<size_t>& sizes, int64_t iterations,
                                          uint64_t seed, const ExpectedAllReduce& expected = {});

/// Returns the bytes that a ring of n ranks sends over each link per reduced byte: busbw = algbw *
/// bus_factor(n).
constexpr double bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

}  // namespace convoy
