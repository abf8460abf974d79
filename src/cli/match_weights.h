// Compares the tensors of a file of weights with those of a model, by name and shape.
#pragma once
#include <string>
#include <vector>

#include "data/stored_tensor.h"
#include "model/torch_layout.h"

namespace convoy {

/// Keeps only the tensors whose names begin with `prefix`, and drops it. Then drops what
/// DistributedDataParallel ("module.") and torch.compile ("_orig_mod.") put before all names.
/// Throws Exit::bad_input, with the path `where`, if no name begins so.
void drop_prefixes(StoredTensors& stored, const std::string& prefix, const std::string& where);

struct WeightsMatch {
    std::vector<const StoredTensor*> tensors;  ///< by index of the layout; null for counters
    std::vector<std::string> problems;         ///< one line for each tensor that does not fit
    std::string summary;                       ///< how many of each kind of problem
};
/// `stored` must outlive the result.
WeightsMatch match_weights(const std::vector<TorchEntry>& layout, const StoredTensors& stored);

}  // namespace convoy
