// How much memory a node can still give: asked before large allocations, because Linux promises memory it does not have and
// kills the job later.
#pragma once
#include <cstddef>

namespace convoy {

/// Bytes that can be allocated without swapping (MemAvailable); the largest size_t where the system does not say.
size_t available_memory();
/// Bytes of memory this process has held at most (VmHWM); 0 where the system does not say.
size_t peak_memory();

/// What allocate_pages(bytes) takes: whole cache lines, or whole huge pages (2 MiB) if it is that large.
size_t whole_pages(size_t bytes);
/// Memory that is not initialised, aligned to a cache line, or to a huge page if it is that large, and in huge pages where the system has
/// them; null if there is none. Given back by std::free.
void* allocate_pages(size_t bytes);

}  // namespace convoy
