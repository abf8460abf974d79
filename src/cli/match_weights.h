// Compares the tensors of a file of weights with those of a model, by name and shape.
#pragma once
#include <string>
#include <vector>

#include "data/stored_tensor.h"
#include "model/torch_layout.h"

namespace convoy {

/// Keeps only the tensors whose names begin with `prefix`, and removes `prefix` from the names.
/// Then removes what DistributedDataParallel ("module.") and torch.compile ("_orig_mod.") put
/// before all names. Throws Exit::bad_input, naming the file `where`, if no name begins with
/// `prefix`.
void drop_prefixes(StoredTensors& stored, const std::string& prefix, const std::string& where);

struct WeightsMatch {
    std::vector<const StoredTensor*> tensors;  ///< [layout]; null for counters and missing tensors
    std::vector<std::string> problems;         ///< one line for each tensor that does not fit
    std::string summary;                       ///< number of problems of each kind
};
/// Matches tensors to entries of the layout. `stored` must outlive the result.
WeightsMatch match_weights(const std::vector<TorchEntry>& layout, const StoredTensors& stored);

}  // namespace convoy
