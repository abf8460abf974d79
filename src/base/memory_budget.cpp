#include "base/memory_budget.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace convoy {
namespace {

std::string mib(size_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

}  // namespace

MemoryBudget::MemoryBudget(std::vector<Part> parts, size_t ranks, const std::string& host)
    : parts_(std::move(parts)), ranks_(ranks), host_(host) {}

MemoryBudget::Least MemoryBudget::least(MemoryOwner owner) const {
    Least found{std::numeric_limits<size_t>::max(), nullptr};
    for (const Part& p : parts_) {
        if (owner == MemoryOwner::node && !p.limit.shared_counts) continue;
        const size_t bytes = owner == MemoryOwner::each_rank ? p.limit.left / p.ranks : p.limit.left;
        if (bytes < found.bytes) found = {bytes, &p};
    }
    return found;
}

size_t MemoryBudget::left() const { return least(MemoryOwner::each_rank).bytes; }
size_t MemoryBudget::left_to_share() const { return least(MemoryOwner::node).bytes; }

void MemoryBudget::take(size_t bytes) {
    for (Part& p : parts_) p.limit.left -= std::min(p.limit.left, bytes * p.ranks);
}

void MemoryBudget::take_shared(size_t bytes) {
    for (Part& p : parts_)
        if (p.limit.shared_counts) p.limit.left -= std::min(p.limit.left, bytes);
}

void MemoryBudget::give(size_t bytes) {
    for (Part& p : parts_) p.limit.left += bytes * p.ranks;
}

void MemoryBudget::take_addresses(size_t bytes) {
    for (Part& p : parts_)
        if (p.limit.group.empty()) p.limit.left -= std::min(p.limit.left, bytes);
}

void MemoryBudget::take_or_fail(size_t bytes, const std::string& what, const std::string& advice, MemoryOwner owner) {
    if (bytes > least(owner).bytes) fail(Exit::out_of_memory, shortage(bytes, owner, what, advice));
    for (Part& p : parts_)
        if (owner != MemoryOwner::node || p.limit.shared_counts)
            p.limit.left -= std::min(p.limit.left, owner == MemoryOwner::each_rank ? bytes * p.ranks : bytes);
}

std::string MemoryBudget::shortage(size_t bytes, MemoryOwner owner, const std::string& what,
                                   const std::string& advice) const {
    const Least found = least(owner);
    const std::string each =
        owner == MemoryOwner::each_rank && ranks_ > 1 ? " for each of " + std::to_string(ranks_) + " ranks" : "";
    std::string text = "out of memory: " + what + " takes " + mib(bytes) + each + " on " + host_;
    if (!found.part) return text + "; " + advice;
    text += ", and " + std::to_string(found.bytes >> 20) + " MiB " + (each.empty() ? "" : "each ") + "are left of " +
            found.part->limit.name;
    return text + "; " + advice + (found.part->limit.remedy.empty() ? "" : ", or " + found.part->limit.remedy);
}

}  // namespace convoy
