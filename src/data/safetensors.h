// The safetensors format (github.com/huggingface/safetensors): eight bytes with the length of a
// header, the header in JSON, then the values of all tensors one after the other.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/input_bytes.h"
#include "data/stored_tensor.h"

namespace convoy {

struct SafeTensor {
    std::string name;
    std::string dtype;           ///< "F32", "F16", "BF16" or "I64"
    std::vector<int64_t> shape;  ///< empty: a scalar
    std::vector<unsigned char> bytes;
};

/// Returns a whole safetensors file. `metadata` becomes the header's `__metadata__`.
std::vector<unsigned char> safetensors_file(const std::vector<SafeTensor>& tensors,
                                            const std::map<std::string, std::string>& metadata);

/// Returns the places of a file's tensors. Throws Exit::bad_input if the file does not follow the
/// format: values must follow each other without holes, and fill the file.
StoredTensors safetensors_in(const InputBytes& file);

}  // namespace convoy
