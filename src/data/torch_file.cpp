#include "data/torch_file.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/shorten.h"
#include "data/torch_pickle.h"
#include "data/zip_directory.h"

namespace convoy {
namespace {

constexpr int64_t most_pickle_bytes = 16 << 20;  // resnet152 has 0.2 MB

[[noreturn]] void refuse(const InputBytes& file, const std::string& what) {
    fail(Exit::bad_input,
         file.path() + ": " + what + "; it is no file of torch.save(net.state_dict(), FILE), or damaged: get it again");
}

/// The bytes of a storage in the file.
struct StoragePlace {
    int64_t offset, bytes;
};

/// Returns all tensors of a pickle. `place_of` says where a storage is.
StoredTensors placed(const InputBytes& file, const TorchPickle& pickle,
                     const std::function<StoragePlace(const TorchStorage&)>& place_of) {
    StoredTensors all;
    for (const TorchTensor& t : pickle.tensors) {
        const TorchStorage& storage = pickle.storages[t.storage];
        const int width = bytes_of_type(storage.type);
        const StoragePlace place = place_of(storage);
        if (storage.count > place.bytes / width)
            refuse(file, "storage " + shortened(storage.key) + " has " + std::to_string(place.bytes) + " bytes for " +
                             std::to_string(storage.count) + " elements of " + storage.type);
        all.tensors.push_back({t.name, storage.type, t.shape, t.strides, place.offset + t.first * width});
    }
    return all;
}

}  // namespace

StoredTensors torch_zip_tensors(const InputBytes& file, const std::string& key) {
    constexpr const char *pickle_name = "data.pkl", *order_name = "byteorder";
    std::map<std::string, ZipMember> members;  // by lower_case(), as PyTorch finds them
    for (ZipMember& member : stored_members(file)) members[lower_case(member.name)] = member;
    std::string folder;
    for (const auto& [name, member] : members)
        if (name.ends_with(std::string("/") + pickle_name)) {
            if (!folder.empty()) refuse(file, "has two members " + std::string(pickle_name));
            folder = name.substr(0, name.size() - std::string(pickle_name).size());
        }
    if (folder.empty()) refuse(file, "has no member " + std::string(pickle_name));
    const auto content = [&](const ZipMember& member, int64_t most) {
        if (member.bytes > most)
            refuse(file, "member " + member.name + " has " + std::to_string(member.bytes) + " bytes");
        std::vector<uint8_t> bytes(size_t(member.bytes));
        file.read(member.offset, member.bytes, bytes.data());
        return bytes;
    };
    if (const auto order = members.find(folder + order_name); order != members.end()) {
        const std::vector<uint8_t> word = content(order->second, 64);
        if (std::string(word.begin(), word.end()) != "little") refuse(file, "has numbers in another order of bytes");
    }
    const std::vector<uint8_t> pickle = content(members.at(folder + pickle_name), most_pickle_bytes);
    return placed(file, read_torch_pickle(pickle, file.path() + ": " + shortened(folder, 60) + pickle_name, key),
                  [&](const TorchStorage& storage) {
                      const auto found = members.find(lower_case(folder + "data/" + storage.key));
                      if (found == members.end()) refuse(file, "has no storage " + shortened(storage.key));
                      return StoragePlace{found->second.offset, found->second.bytes};
                  });
}

StoredTensors old_torch_tensors(const InputBytes& file, const std::string& key) {
    std::vector<uint8_t> head(size_t(std::min(file.size(), most_pickle_bytes)));
    file.read(0, int64_t(head.size()), head.data());
    const OldTorchPickles pickles = read_old_torch_pickles(head, file.path(), key);
    std::map<std::string, std::string> types;
    for (const TorchStorage& storage : pickles.state.storages) types[storage.key] = storage.type;
    std::map<std::string, StoragePlace> places;
    auto at = int64_t(pickles.state.bytes);
    for (const std::string& name : pickles.keys) {
        uint8_t digits[8];
        const auto type = types.find(name);
        if (type == types.end() || places.contains(name)) refuse(file, "has a storage that no tensor names");
        if (at > file.size() - int64_t(sizeof digits)) refuse(file, "ends before storage " + shortened(name));
        file.read(at, sizeof digits, digits);
        uint64_t count = 0;
        for (int i = 8; i-- > 0;) count = count << 8 | digits[i];
        at += int64_t(sizeof digits);
        const int width = bytes_of_type(type->second);
        if (count > uint64_t((file.size() - at) / width))
            refuse(file, "ends before the end of storage " + shortened(name));
        places[name] = {at, int64_t(count) * width};
        at += places[name].bytes;
    }
    if (at != file.size()) refuse(file, "has more bytes than its storages");
    return placed(file, pickles.state, [&](const TorchStorage& storage) {
        const auto found = places.find(storage.key);
        if (found == places.end()) refuse(file, "has no storage " + shortened(storage.key));
        return found->second;
    });
}

}  // namespace convoy
