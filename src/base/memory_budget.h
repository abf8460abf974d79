// The memory that one rank may still take on its node, under all limits at once. Ranks that share a
// limit get equal parts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/memory_limits.h"

namespace convoy {

/// The owner of a block: each rank of the node has one, only this rank has one, or the node's ranks
/// share one.
enum class MemoryOwner : uint8_t { each_rank, this_rank, node };

class MemoryBudget {
public:
    /// A limit, and the number of ranks of this node that share it, including this one.
    struct Part {
        MemoryLimit limit;
        size_t ranks = 1;
    };
    /// `ranks`: number of ranks on the node; `host`: its name for messages.
    explicit MemoryBudget(std::vector<Part> parts, size_t ranks = 1, const std::string& host = "this host");

    /// Returns the bytes of the largest block that this rank may take, if all other ranks of the
    /// node take as much.
    size_t left() const;
    /// Returns the bytes of the largest block that the ranks of the node may take and share.
    size_t left_to_share() const;

    /// Subtracts a block that each rank of the node takes for itself. Never goes below 0.
    void take(size_t bytes);
    /// Subtracts one block that all ranks of the node share. Never goes below 0.
    void take_shared(size_t bytes);
    /// Gives back a block of take().
    void give(size_t bytes);
    /// Subtracts memory that is reserved but never touched, such as stacks. Only the limits of this
    /// process alone (ulimit) count it.
    void take_addresses(size_t bytes);
    /// Subtracts a block for `what`. Throws Exit::out_of_memory with shortage() if it does not fit.
    void take_or_fail(size_t bytes, const std::string& what, const std::string& advice,
                      MemoryOwner = MemoryOwner::each_rank);

    /// Returns the message about a block that does not fit: the bytes needed, the bytes left, and
    /// the limit.
    std::string shortage(size_t bytes, MemoryOwner, const std::string& what, const std::string& advice) const;

private:
    struct Least {
        size_t bytes;
        const Part* part;
    };
    Least least(MemoryOwner) const;

    std::vector<Part> parts_;  // limit.left is the total for all ranks that share the limit
    size_t ranks_;
    std::string host_;
};

}  // namespace convoy
