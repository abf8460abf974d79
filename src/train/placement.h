// Where the images of a training are while it runs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace convoy {

enum class Placement : uint8_t {
    automatic,  ///< the first of the others that leaves enough memory
    replicate,  ///< each device holds a copy
    node,       ///< each node's memory holds a copy, from which GPUs read their batches
    partition,  ///< each node's memory holds its part, and batches travel between nodes
    stream      ///< each node's memory holds its part of two blocks, which are read from disk
};

/// What place() is asked.
struct PlacementWish {
    Placement placement = Placement::automatic;
    size_t stream_block = 0;  ///< bytes; 0: as stream_block_bytes()
    bool here = true;         ///< this host is the one that trains
};

/// Where images go, which is not automatic, and one line for people that says why; no line where
/// there is nothing to say: on CPUs a node has one copy as long as it has room.
struct Placed {
    Placement placement = Placement::replicate;
    size_t stream_block = 0;
    size_t node_bytes = 0;  ///< of memory that this node's ranks share for images
    std::string why{};

    /// Whether devices read their batches from the split itself.
    bool resident() const { return placement == Placement::replicate || placement == Placement::node; }
};
/// Collective. `splits`: bytes of the images of each.
Placed place(Comm&, const Backend&, const PlacementWish&, const std::vector<size_t>& splits);
/// Collective. Throws Exit::out_of_memory on all ranks if a node has no room for its images.
void check_room(Comm&, const Placed&);

}  // namespace convoy
