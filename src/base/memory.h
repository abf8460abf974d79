// Large blocks of memory, and the peak memory of this process. memory_limits.h says how much it may
// still take.
#pragma once
#include <cstddef>

namespace convoy {

/// Returns the peak resident memory of this process in bytes (VmHWM); 0 if the system does not say.
size_t peak_memory();

/// Returns whether the system would give this process `bytes` more now. Where address space is
/// limited (ulimit -v), it may not.
bool is_available(size_t bytes);

/// If address space is limited (ulimit -v), makes all threads allocate from one heap, because a
/// heap per thread would reserve 64 MiB of addresses. Call it before the first thread starts.
void spare_address_space();

/// Returns the bytes that allocate_pages(bytes) takes: whole cache lines, or from 2 MiB on whole
/// huge pages (2 MiB).
size_t whole_pages(size_t bytes);
/// Allocates uninitialised memory; null if there is none. Blocks are aligned to a cache line. From
/// 2 MiB on they are aligned to a huge page and use huge pages if the system has them. Free with
/// std::free.
void* allocate_pages(size_t bytes);

}  // namespace convoy
