// A block of memory that the ranks of a node share. If shared memory has no room for it, each rank
// has a copy instead.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace convoy {

/// The groups of ranks that share memory.
struct Groups {
    std::vector<std::vector<int>> members;  ///< [groups] ranks, ascending; groups are sorted by first rank
    std::vector<int> of;                    ///< [ranks] group of each rank
    int rank = 0;                           ///< this rank

    int own() const { return of[rank]; }
    int count() const { return int(members.size()); }
    /// Returns the index of a rank among the members of its group.
    int place_of(int of_rank) const;
    /// Returns all ranks, group after group.
    std::vector<int> seats() const;
};

class SharedBlock {
public:
    /// Returns true if blocks can be shared: all nodes have room in shared memory, and some node
    /// has several ranks. `bytes`: size of the block on this rank's node. Collective.
    static bool may_share(Comm&, size_t bytes);
    /// Returns the groups of ranks that share a block: the ranks of each node if `shared`, else
    /// each rank alone. Collective.
    static Groups groups(Comm&, bool shared);
    /// Throws Exit::out_of_memory on all ranks if there is no room for `bytes` of `what` per node
    /// (shared) or per rank. Collective.
    static void check(Comm&, bool shared, size_t bytes, const std::string& what, const std::string& advice);

    /// Allocates the block. Throws as check() does. Collective.
    SharedBlock(Comm&, bool shared, size_t bytes, const std::string& what, const std::string& advice);
    ~SharedBlock();  ///< collective, except when an exception destroys it
    SharedBlock(const SharedBlock&) = delete;

    bool shared() const { return shared_; }
    char* data() const { return data_; }
    /// Waits for all ranks that share the block; afterwards each sees what the others wrote before.
    void barrier();

private:
    void take_pages(size_t bytes);

    Comm& comm_;
    const bool shared_;
    char* data_ = nullptr;
    void* own_ = nullptr;
    void* window_ = nullptr;  // MPI_Win of the node; null if not shared
    const int exceptions_;
};

}  // namespace convoy
