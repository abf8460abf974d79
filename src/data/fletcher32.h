// The Fletcher-32 that HDF5's filter appends to a chunk: over big-endian 16-bit words, with sums
// that start at 0. A sum that is 0 modulo 65535 is stored as 65535, unless every byte is 0.
#pragma once
#include <cstddef>
#include <cstdint>

namespace convoy {

/// Bytes of the checksum that follows a chunk in the file, little-endian.
constexpr size_t fletcher32_bytes = 4;

/// Returns the checksum of `data` [bytes]. An odd byte at the end is the high half of a word.
uint32_t fletcher32(const uint8_t* data, size_t bytes);

/// True if the checksum that follows `chunk` [bytes] matches it. Like HDF5, this also accepts a
/// checksum with the bytes of both halves swapped, which HDF5 wrote before 1.6.3.
bool matches_fletcher32(const uint8_t* chunk, size_t bytes);

}  // namespace convoy
