// Reads files of weights: safetensors, and the files that torch.save() writes (.pth, .pt). Nothing
// in a file is executed. Only the bytes of a tensor that is asked for are read.
#pragma once
#include <string>
#include <vector>

#include "data/input_bytes.h"
#include "data/stored_tensor.h"

namespace convoy {

/// Returns the places of all tensors. `key`: the entry of a torch.save() file that holds them;
/// empty: the usual entries. Throws Exit::bad_input if the file has none of these formats or is
/// damaged.
StoredTensors stored_tensors(const InputBytes& file, const std::string& key = "");

/// Returns the elements of a tensor of type F16, BF16, F32 or F64, in the order of its dimensions,
/// the last one fastest. Throws Exit::bad_input for another type, and for a number that is not
/// finite or too large for f32. To bound memory, also throws it for a tensor with more elements
/// than the file has, and for a small part of a much larger one.
std::vector<float> stored_values(const InputBytes& file, const StoredTensor& tensor);

}  // namespace convoy
