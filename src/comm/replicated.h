// A block of memory that every rank reads in full though each rank wrote only its own part. The
// ranks of a node share one copy where shared memory has room for it; otherwise each keeps its own.
#pragma once
#include <cstddef>
#include <vector>

#include "comm/shared_block.h"

namespace convoy {

class Replicated {
public:
    Replicated(Comm&, size_t bytes);  ///< collective

    /// Collective; throws Exit::out_of_memory if there is no room.
    static void check(Comm&, size_t bytes);

    char* data() const { return block_.data(); }
    /// Collective. Rank r has written bytes [offsets[r], offsets[r + 1]); afterwards every rank
    /// sees all of them.
    void complete(const std::vector<size_t>& offsets);

private:
    Comm& comm_;
    SharedBlock block_;
};

}  // namespace convoy
