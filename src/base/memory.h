// Large blocks of memory, and how much this process has held. What it may still take:
// memory_limits.h.
#pragma once
#include <cstddef>

namespace convoy {

/// Bytes of memory this process has held at most (VmHWM); 0 where the system does not say.
size_t peak_memory();

/// Under a limit on address space (ulimit -v): lets all threads allocate from one heap, where each
/// would else set 64 MiB of addresses aside. Before the first thread.
void spare_address_space();

/// What allocate_pages(bytes) takes: whole cache lines, or whole huge pages (2 MiB) if it is that
/// large.
size_t whole_pages(size_t bytes);
/// Memory that is not initialised; null if there is none. Aligned to a cache line; if it is that
/// large, to a huge page, and in huge pages if the system has them. Given back by std::free.
void* allocate_pages(size_t bytes);

}  // namespace convoy
