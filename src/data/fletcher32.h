// The Fletcher-32 that HDF5's filter appends to a chunk: over 16-bit words, big-endian, from sums
// that start at 0. A sum of 0 modulo 65535 is 0 only if every byte is 0, and 65535 otherwise.
#pragma once
#include <cstddef>
#include <cstdint>

namespace convoy {

/// Bytes of the checksum that follows a chunk in the file, little-endian.
constexpr size_t fletcher32_bytes = 4;

/// Of `data` [bytes]. An odd byte at the end is the high half of a word.
uint32_t fletcher32(const uint8_t* data, size_t bytes);

/// Whether `chunk` [bytes], followed by its checksum, is what was written. As HDF5 does, this also
/// takes the sum with the bytes of both halves swapped, which HDF5 wrote before 1.6.3.
bool matches_fletcher32(const uint8_t* chunk, size_t bytes);

}  // namespace convoy
