// Sums little-endian words in lanes, which compilers vectorise. Swapping the bytes of a word
// multiplies it by 256 modulo 65535, so both sums are multiplied by 256 once, at the end.
#include "data/fletcher32.h"

#include <cstring>

namespace convoy {
namespace {

constexpr size_t lanes = 32;       // words per row
constexpr size_t most_rows = 360;  // more could overflow a lane's second sum: 65535 * 360 * 361 / 2 < 2^32
constexpr uint64_t modulus = 65535;

/// Returns `sum` modulo 65535, but 65535 instead of 0 if `sum` > 0: HDF5's end-around carry.
constexpr uint64_t reduced(uint64_t sum) { return sum == 0 ? 0 : (sum - 1) % modulus + 1; }

/// `first`: the sum of all words. `second`: the sum of the sums of all prefixes. Both are reduced.
struct Sums {
    uint64_t first = 0, second = 0;

    /// Appends `words` words that have these two sums.
    void append(uint64_t words, uint64_t first_sum, uint64_t second_sum) {
        second = reduced(second + words * first + second_sum);
        first = reduced(first + first_sum);
    }
};

/// Appends `rows` rows of words, at most `most_rows`.
void append_rows(Sums& sums, const uint8_t* data, size_t rows) {
    uint32_t first[lanes] = {}, second[lanes] = {};  // the two sums of each lane's words
    for (size_t row = 0; row < rows; ++row)
        for (size_t lane = 0; lane < lanes; ++lane) {
            uint16_t word = 0;  // GCC 12 makes slower code if a whole row is copied
            std::memcpy(&word, data + (row * lanes + lane) * sizeof word, sizeof word);
            first[lane] += word;
            second[lane] += first[lane];
        }
    uint64_t first_sum = 0, second_sum = 0;
    for (size_t lane = 0; lane < lanes; ++lane) {
        first_sum += first[lane];
        // A word of row r is in (rows - r) * lanes - lane prefixes.
        second_sum += lanes * uint64_t(second[lane]) - lane * uint64_t(first[lane]);
    }
    sums.append(rows * lanes, first_sum, second_sum);
}

constexpr uint32_t bytes_swapped(uint32_t sum) { return (sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff); }

}  // namespace

uint32_t fletcher32(const uint8_t* data, size_t bytes) {
    constexpr size_t row_bytes = lanes * 2;
    Sums sums;
    for (size_t rows = bytes / row_bytes; rows > 0;) {
        const size_t now = rows < most_rows ? rows : most_rows;
        append_rows(sums, data, now);
        data += now * row_bytes;
        rows -= now;
    }
    for (size_t left = bytes % row_bytes; left > 0;) {
        const uint64_t word = left == 1 ? data[0] : data[0] | data[1] << 8;
        sums.append(1, word, word);
        data += 2;
        left -= left == 1 ? 1 : 2;
    }
    return uint32_t(reduced(sums.second * 256) << 16 | reduced(sums.first * 256));
}

bool matches_fletcher32(const uint8_t* chunk, size_t bytes) {
    uint32_t stored = 0;
    std::memcpy(&stored, chunk + bytes, sizeof stored);
    const uint32_t sum = fletcher32(chunk, bytes);
    return stored == sum || stored == bytes_swapped(sum);
}

}  // namespace convoy
