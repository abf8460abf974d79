// What one rank may still take of a node's memory, under every limit at once. Ranks that share a
// limit get equal parts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/memory_limits.h"

namespace convoy {

/// Who takes a block: every rank of the node one of its own, only this rank, or all of them one
/// that they share.
enum class Taker : uint8_t { each_rank, this_rank, node };

class MemoryBudget {
public:
    /// A limit, and how many ranks of this node share it, this one included.
    struct Part {
        MemoryLimit limit;
        size_t ranks = 1;
    };
    /// `ranks`: of the node.
    explicit MemoryBudget(std::vector<Part> parts, size_t ranks = 1, const std::string& host = "this host");

    /// Bytes of the largest block that this rank may take for itself, while the other ranks of the
    /// node take as much.
    size_t left() const;
    /// Bytes of the largest block that all ranks of the node may take together and share.
    size_t left_to_share() const;

    /// A block for this rank alone, or one that it shares with all ranks of the node. More than
    /// there is takes all.
    void take(size_t bytes);
    void take_shared(size_t bytes);
    void give(size_t bytes);
    /// Under the limits that this process has to itself, which count what is set aside and never
    /// touched, as are stacks.
    void take_addresses(size_t bytes);
    /// For `what`; throws Exit::out_of_memory if there is less, with what is needed, what there is,
    /// and who limits it.
    void take_or_fail(size_t bytes, const std::string& what, const std::string& advice, Taker = Taker::each_rank);

    /// The message about a block of `bytes` that does not fit.
    std::string shortage(size_t bytes, Taker, const std::string& what, const std::string& advice) const;

private:
    struct Least {
        size_t bytes;
        const Part* part;
    };
    Least least(Taker) const;

    std::vector<Part> parts_;  // limit.left: of all ranks that share it
    size_t ranks_;
    std::string host_;
};

}  // namespace convoy
