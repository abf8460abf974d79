// Counter-based random numbers (Philox 4x32-10, Salmon et al., SC'11). A draw is a function of
// (seed, purpose, epoch or step, sample, element). So it does not depend on the number of ranks, on
// the backend, or on where a run was interrupted.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace convoy {

struct Random4 {
    uint32_t word[4];
};

/// Computes ten rounds of Philox on a 128-bit counter with a 64-bit key.
CONVOY_HD Random4 philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
        const uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0, n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
        c1 = uint32_t(p1);
        c3 = uint32_t(p0);
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

/// The purpose of a draw; it keeps two uses from seeing the same numbers. Dropout layer i uses
/// `purpose_dropout + i`.
enum Purpose : uint32_t {
    purpose_init = 1,
    purpose_permutation = 2,
    purpose_augment = 3,
    purpose_comm_test = 4,
    purpose_stream_runs = 5,
    purpose_stream_rows = 6,
    purpose_mix = 7,
    purpose_jitter = 8,
    purpose_dropout = 1024
};

/// Returns a uniform number in [0, 1) with 24 random bits.
CONVOY_HD float uniform01(uint32_t word) { return float(word >> 8) * 0x1p-24f; }

/// Returns a uniform integer in [0, n) by multiply-shift; the bias is below n / 2^32.
CONVOY_HD uint32_t uniform_below(uint32_t word, uint32_t n) { return uint32_t((uint64_t(word) * n) >> 32); }

/// Computes two independent standard normal numbers from two words (Box-Muller).
inline void normal2(uint32_t a, uint32_t b, float out[2]) {
    const double radius = std::sqrt(-2.0 * std::log((double(a) + 1.0) * 0x1p-32)),
                 angle = 2.0 * M_PI * double(b) * 0x1p-32;
    out[0] = float(radius * std::cos(angle));
    out[1] = float(radius * std::sin(angle));
}

}  // namespace convoy
