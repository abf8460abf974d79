// A block of memory that every rank reads in full though each rank wrote only its own part. The
// ranks of a node share one copy where shared memory has room for it; otherwise each keeps its own.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/comm.h"

namespace convoy {

class Replicated {
public:
    Replicated(Comm&, size_t bytes);  ///< collective
    ~Replicated();                    ///< collective, except when an exception destroys it
    Replicated(const Replicated&) = delete;

    /// Whether the ranks of a node would share one copy of so much. Collective; throws
    /// Exit::out_of_memory if there is no room.
    static bool check(Comm&, size_t bytes);

    char* data() const;
    /// Collective. Rank r has written bytes [offsets[r], offsets[r + 1]); afterwards every rank
    /// sees all of them.
    void complete(const std::vector<size_t>& offsets);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace convoy
