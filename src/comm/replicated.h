// A block of memory that every rank can read as a whole, although each rank wrote only its own
// part. The ranks of a node share one copy if shared memory has room for it; otherwise each has a
// copy.
#pragma once
#include <cstddef>
#include <vector>

#include "comm/shared_block.h"

namespace convoy {

class Replicated {
public:
    Replicated(Comm&, size_t bytes);  ///< collective

    /// Throws Exit::out_of_memory on all ranks if there is no room for a block. Collective.
    static void check(Comm&, size_t bytes);

    char* data() const { return block_.data(); }
    /// Exchanges the parts: rank r has written bytes [offsets[r], offsets[r + 1]), and afterwards
    /// every rank sees all of them. Collective.
    void complete(const std::vector<size_t>& offsets);

private:
    Comm& comm_;
    SharedBlock block_;
};

}  // namespace convoy
