// The two formats of torch.save(): a zip file with the pickle data.pkl and a member per storage,
// and before version 1.6 some pickles with the storages behind them.
#pragma once
#include <string>

#include "data/input_bytes.h"
#include "data/stored_tensor.h"

namespace convoy {

/// Return where the tensors of the state_dict at `key` are; see stored_tensors(). Throw
/// Exit::bad_input.
StoredTensors torch_zip_tensors(const InputBytes& file, const std::string& key);
StoredTensors old_torch_tensors(const InputBytes& file, const std::string& key);

}  // namespace convoy
