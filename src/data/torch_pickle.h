// Reads the pickles that torch.save() writes for a state_dict, alone or in a dict with other plain
// values. It accepts tensors, their storages and OrderedDict, and refuses all other objects.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace convoy {

/// Contiguous elements. Tensors are views of them.
struct TorchStorage {
    std::string type;  ///< type in safetensors' spelling
    std::string key;   ///< name of the member that has its bytes
    int64_t count = 0;
};
struct TorchTensor {
    std::string name;
    size_t storage = 0;  ///< index into storages
    int64_t first = 0;   ///< index of the first element in the storage
    std::vector<int64_t> shape, strides;
};
struct TorchPickle {
    std::vector<TorchStorage> storages;
    std::vector<TorchTensor> tensors;  ///< the state_dict's tensors; each lies within its storage
    size_t bytes = 0;                  ///< bytes that the pickle took
};

/// Reads one pickle. `key` is the entry that holds the state_dict. If `key` is empty and the
/// outermost dict has tensors, that dict is the state_dict. Else the state_dict is its entry
/// state_dict, model or model_state_dict. Throws Exit::bad_input.
TorchPickle read_torch_pickle(std::span<const uint8_t> bytes, const std::string& where, const std::string& key);

/// The pickles at the start of a file that torch.save() wrote before version 1.6. First come three
/// that are only checked: a magic number, the protocol version, the byte order. Then come the
/// state_dict and the list of storages.
struct OldTorchPickles {
    TorchPickle state;
    std::vector<std::string> keys;  ///< keys of storages, in the order in which they lie in the file
};
OldTorchPickles read_old_torch_pickles(std::span<const uint8_t> bytes, const std::string& where,
                                       const std::string& key);

}  // namespace convoy
