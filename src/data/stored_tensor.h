// The tensors of a file of weights, and their places in the file. data/weights_file.h reads them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace convoy {

struct StoredTensor {
    std::string name;
    std::string type;            ///< type in safetensors' spelling: "F32", "BF16", "I64" …
    std::vector<int64_t> shape;  ///< empty: a scalar
    /// Steps of each dimension in elements. All elements lie within the file.
    std::vector<int64_t> strides;
    int64_t offset = 0;  ///< first element, in bytes from the start of the file
};

struct StoredTensors {
    std::vector<StoredTensor> tensors;
    std::map<std::string, std::string> metadata{};
};

/// Returns the bytes of an element of a type, or 0 if there is no such type.
int bytes_of_type(const std::string& type);
/// Returns the number of elements, or -1 if a side is negative or there are more than 2^47.
int64_t count_of(const std::vector<int64_t>& shape);
/// Returns the strides of a tensor whose elements are contiguous, the last dimension fastest.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);
/// Returns "[64, 3, 7, 7]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace convoy
