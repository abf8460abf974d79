// The two tests of `convoy comm-test`, apart from its options: the tests of this repository run
// them on a backend that sums wrongly.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"

namespace convoy {

enum class SumLines {
    plain,  ///< steps from 1, sums as whole numbers
    toy     ///< as the PyTorch script prints them: steps from 0, sums as 13.0
};
struct SmallSums {
    int64_t steps;
    double sleep = 0;  ///< seconds after each step
    uint64_t seed = 1;
    SumLines lines = SumLines::plain;
};
/// All-reduces of one small number a rank. Every rank draws an integer from 0 to 10 and prints it
/// with the sum. It draws those of all ranks, too, and compares. Collective; throws Exit::comm on
/// all ranks.
void sum_small_numbers(Comm&, Backend&, const SmallSums&);

/// What an all-reduce of a size took.
struct SizeTime {
    size_t bytes;
    double seconds;  ///< the slowest rank's mean
};
/// Seconds that an all-reduce of these bytes is expected to take; NaN: not known.
using ExpectedSum = std::function<double(size_t bytes)>;

/// Times all-reduces of f32 of these sizes (bytes, multiples of 4), `iterations` each, and prints a
/// table as nccl-tests does, with columns of what was `expected` if that is given. Every element of
/// every size is checked once on every rank. Collective, the same result on all ranks; throws
/// Exit::comm on all ranks, Exit::out_of_memory.
std::vector<SizeTime> measure_sums(Comm&, Backend&, const std::vector<size_t>& sizes, int64_t iterations, uint64_t seed,
                                   const ExpectedSum& expected = {});

/// What a ring of n ranks sends over each link for every byte that is reduced: busbw = algbw *
/// this.
constexpr double bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

}  // namespace convoy
