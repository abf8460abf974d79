// Reads the structure in which HDF5 keeps more than eight attributes or links: a fractal heap,
// indexed by B-trees of version 2.
#pragma once
#include <functional>

#include "data/hdf5_blocks.h"

namespace convoy::h5 {

/// Kinds of records in a B-tree of version 2, as HDF5's format specification numbers them.
enum class Record : unsigned {
    huge_object = 1,
    link_by_name = 5,
    link_by_order = 6,
    attribute_by_name = 8,
    attribute_by_order = 9,
    filtered_chunk = 11
};

/// Calls visit(record) for each record of a tree with these sizes of nodes and records. Throws
/// Unfit if the tree contradicts itself.
void each_record(Blocks&, uint64_t address, Record kind, size_t node_bytes, size_t record_bytes,
                 const std::function<void(Fields)>& visit);

/// Addresses of a heap and of its trees; no_address: there is none.
struct DenseStore {
    uint64_t heap = no_address, by_name = no_address, by_order = no_address;
};

/// Calls visit(message) for each attribute or link, once per tree. Throws Unfit if heap or trees
/// contradict themselves, or have another form than HDF5 gives them.
void each_dense_attribute(Blocks&, const DenseStore&, const std::function<void(Fields)>& visit);
void each_dense_link(Blocks&, const DenseStore&, const std::function<void(Fields)>& visit);

}  // namespace convoy::h5
