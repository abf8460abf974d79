// Reads the pickles that torch.save() writes for a state_dict, alone or in a dict with other plain
// values. It knows tensors, their storages and OrderedDict, and refuses all other objects.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace convoy {

/// A run of elements that tensors are views of.
struct TorchStorage {
    std::string type;  ///< as safetensors spells it
    std::string key;   ///< names its bytes in the file
    int64_t count = 0;
};
struct TorchTensor {
    std::string name;
    size_t storage = 0;  ///< index into storages
    int64_t first = 0;   ///< element of the storage
    std::vector<int64_t> shape, strides;
};
struct TorchPickle {
    std::vector<TorchStorage> storages;
    std::vector<TorchTensor> tensors;  ///< those of the state_dict; each lies within its storage
    size_t bytes = 0;                  ///< that the pickle took
};

/// Reads one pickle. `key`: the entry that holds the state_dict; empty: the outermost dict if that
/// has tensors, or else its entry state_dict, model or model_state_dict. Throws Exit::bad_input.
TorchPickle read_torch_pickle(std::span<const uint8_t> bytes, const std::string& where, const std::string& key);

/// Reads the pickles at the start of a file that torch.save() wrote before version 1.6, in order:
/// `constants` of them are not the state_dict and come first, and one is the list of storages.
struct OldTorchPickles {
    TorchPickle state;
    std::vector<std::string> keys;  ///< of storages, in the order in which they lie in the file
};
OldTorchPickles read_old_torch_pickles(std::span<const uint8_t> bytes, const std::string& where,
                                       const std::string& key);

}  // namespace convoy
