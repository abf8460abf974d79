// Decides where the images of a training lie while it runs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backend/tensor_memory.h"

namespace convoy {

class Comm;

enum class Placement : uint8_t {
    automatic,  ///< the first of the others that leaves enough memory
    replicate,  ///< each device holds a copy
    node,       ///< each node's memory holds a copy, from which GPUs read their batches
    partition,  ///< each node's memory holds a part of the images, and nodes exchange images of batches
    stream      ///< each node's memory holds a part of two blocks, which are read from disk
};

/// The request to place().
struct PlacementWish {
    Placement placement = Placement::automatic;
    size_t stream_block = 0;  ///< bytes; 0: stream_block_bytes() decides
    bool here = true;         ///< true: this host is one of those that will train
};

/// The decision of place(). `why` is one line for people; empty for the normal case, one copy per
/// node on CPUs.
struct Placed {
    Placement placement = Placement::replicate;
    size_t stream_block = 0;
    size_t node_bytes = 0;  ///< bytes of memory that this node's ranks share for images
    std::string why{};

    /// True if devices read their batches from the split itself.
    bool resident() const { return placement == Placement::replicate || placement == Placement::node; }
};
/// Collective. Decides where images go; never returns `automatic`. `splits`: bytes of the images of
/// each split.
Placed place(Comm&, const TensorMemory&, const PlacementWish&, const std::vector<size_t>& splits);
/// Collective. Throws Exit::out_of_memory on all ranks if a node has no room for its images.
void check_room(Comm&, const Placed&);

}  // namespace convoy
