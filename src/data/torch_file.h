// Reads both formats of torch.save(): a zip file with the pickle data.pkl and one member per
// storage; before version 1.6, some pickles followed by the storages.
#pragma once
#include <string>

#include "data/input_bytes.h"
#include "data/stored_tensor.h"

namespace convoy {

/// Return the places of the tensors of the state_dict at `key`; see stored_tensors(). Throw
/// Exit::bad_input.
StoredTensors torch_zip_tensors(const InputBytes& file, const std::string& key);
StoredTensors old_torch_tensors(const InputBytes& file, const std::string& key);

}  // namespace convoy
