#include "supply/placement.h"

#include "base/text.h"
#include "comm/node_memory.h"
#include "comm/shared_block.h"
#include "plan/stream_order.h"

namespace convoy {
namespace {

double gib(size_t bytes) { return double(bytes) / (size_t(1) << 30); }

/// Free memory and needed memory of this node [bytes]. `whole`: for all images. `part`: for this
/// node's part of them. `blocks`: for this node's part of two blocks.
struct NodeRoom {
    size_t left, whole, part, blocks;
    size_t copies;  ///< copies of all images per node: one, or one per rank without shared memory
    int64_t nodes;
};

/// Collective. Returns true if at least a quarter of the free memory stays free on every node.
bool fits(Comm& comm, const NodeRoom& room, size_t bytes) { return comm.max(int64_t(bytes > room.left / 4 * 3)) == 0; }

/// Collective. Returns the first placement that leaves enough memory.
Placement chosen(Comm& comm, const TensorMemory& memory, const NodeRoom& room) {
    if (fits(comm, room, room.whole * room.copies)) {
        const std::optional<size_t> free = memory.device_memory_free();
        return comm.max(int64_t(free && room.whole > *free / 2)) > 0 ? Placement::node : Placement::replicate;
    }
    return room.nodes > 1 && fits(comm, room, room.part) ? Placement::partition : Placement::stream;
}

std::string free_of(const NodeRoom& room) {
    return room.left == SIZE_MAX ? "" : formatted("; %.2f GiB of memory were free", gib(room.left));
}

std::string reason(Placement placement, const TensorMemory& memory, const NodeRoom& room) {
    const std::optional<size_t> free = memory.device_memory_free();
    switch (placement) {
        case Placement::replicate:
            return free ? formatted("each GPU holds all images, %.2f GiB; %.2f GiB were free", gib(room.whole),
                                    gib(*free))
                        : "";
        case Placement::node:
            return free ? formatted(
                              "the node's memory holds all images, %.2f GiB, and GPUs read their batches from "
                              "there; %.2f GiB were free on this one",
                              gib(room.whole), gib(*free))
                        : "";
        case Placement::partition:
            return formatted(
                "each node holds its part of the images, here %.2f of %.2f GiB, and batches travel between "
                "nodes%s",
                gib(room.part), gib(room.whole), free_of(room).c_str());
        default:
            return formatted(
                "%.2f GiB of images are read from disk while steps run; this node holds its part of two "
                "blocks, %.2f GiB%s",
                gib(room.whole), gib(room.blocks), free_of(room).c_str());
    }
}

size_t node_bytes(Placement placement, const NodeRoom& room) {
    if (placement == Placement::partition) return room.part;
    return placement == Placement::stream ? room.blocks : room.whole;
}

}  // namespace

Placed place(Comm& comm, const TensorMemory& memory, const PlacementWish& wish, const std::vector<size_t>& splits) {
    const auto part_of = [&](size_t all) {
        return (all + size_t(comm.size()) - 1) / size_t(comm.size()) * size_t(comm.local_size());
    };
    size_t whole = 0, blocks = 0;
    for (const size_t bytes : splits) {
        whole += bytes;
        blocks += 2 * std::min(bytes, stream_block_bytes(wish.stream_block, bytes));
    }
    const NodeRoom room{wish.here ? memory_budget(comm).left_to_share() : SIZE_MAX,
                        whole,
                        part_of(whole),
                        part_of(blocks),
                        SharedBlock::may_share(comm, whole) ? 1 : size_t(comm.local_size()),
                        comm.sum(int64_t(comm.local_rank() == 0))};
    const Placement placement = wish.placement == Placement::automatic ? chosen(comm, memory, room) : wish.placement;
    return {placement, wish.stream_block, node_bytes(placement, room), reason(placement, memory, room)};
}

void check_room(Comm& comm, const Placed& placed) {
    const bool shared = SharedBlock::may_share(comm, placed.node_bytes);
    const size_t bytes =
        shared || placed.resident() ? placed.node_bytes : placed.node_bytes / size_t(comm.local_size());
    SharedBlock::check(comm, shared, bytes, "the data set", "choose another --data-placement, or more nodes");
}

}  // namespace convoy
