// A block of memory that the ranks of a node share, or that each rank has for itself where shared
// memory has no room for it.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace convoy {

/// Which ranks share memory with which.
struct Groups {
    std::vector<std::vector<int>> members;  ///< [groups] ranks, ascending; groups by their first rank
    std::vector<int> of;                    ///< [ranks] the group of each
    int rank = 0;                           ///< this one

    int own() const { return of[size_t(rank)]; }
    int count() const { return int(members.size()); }
    /// Place of a rank among the members of its group.
    int place_of(int of_rank) const;
    /// All ranks, group after group.
    std::vector<int> seats() const;
};

class SharedBlock {
public:
    /// Collective: whether the ranks of every node would share blocks, of `bytes` on this rank's
    /// node.
    static bool may_share(Comm&, size_t bytes);
    /// Collective. Each rank is a group of its own if nothing is shared.
    static Groups groups(Comm&, bool shared);
    /// Collective. Throws Exit::out_of_memory on all ranks if there is no room for `bytes` of
    /// `what` a node (shared) or a rank.
    static void check(Comm&, bool shared, size_t bytes, const std::string& what, const std::string& advice);

    /// Collective; throws as check().
    SharedBlock(Comm&, bool shared, size_t bytes, const std::string& what, const std::string& advice);
    ~SharedBlock();  ///< collective, except when an exception destroys it
    SharedBlock(const SharedBlock&) = delete;

    bool shared() const { return shared_; }
    char* data() const { return data_; }
    /// Of the ranks that share it: what each wrote before, all see afterwards.
    void barrier();

private:
    void take_pages(size_t bytes);

    Comm& comm_;
    const bool shared_;
    char* data_ = nullptr;
    void* own_ = nullptr;
    void* window_ = nullptr;  // MPI_Win of the node, if shared
    const int exceptions_;
};

}  // namespace convoy
