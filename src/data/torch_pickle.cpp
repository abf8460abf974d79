#include "data/torch_pickle.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/shorten.h"
#include "data/pickle_machine.h"
#include "data/stored_tensor.h"

namespace convoy {
namespace {

constexpr std::string_view ordered_dict = "collections.OrderedDict", rebuild = "torch._utils._rebuild_tensor_v2",
                           rebuild_before = "torch._utils._rebuild_tensor",
                           rebuild_parameter = "torch._utils._rebuild_parameter";
/// The classes of storages, and their types as safetensors spells them.
constexpr std::pair<std::string_view, const char*> storage_types[] = {
    {"torch.FloatStorage", "F32"},     {"torch.DoubleStorage", "F64"}, {"torch.HalfStorage", "F16"},
    {"torch.BFloat16Storage", "BF16"}, {"torch.LongStorage", "I64"},   {"torch.IntStorage", "I32"},
    {"torch.ShortStorage", "I16"},     {"torch.CharStorage", "I8"},    {"torch.ByteStorage", "U8"},
    {"torch.BoolStorage", "BOOL"}};

/// The most bytes in the name of a storage. PyTorch writes decimal numbers. A pickle can repeat a
/// text in three bytes, so copies of a long name could exhaust memory.
constexpr size_t longest_key = 64;

constexpr const char* otherwise =
    "it is no state_dict of PyTorch, or damaged: write one by torch.save(net.state_dict(), FILE)";

class TorchMachine : public PickleMachine {
public:
    TorchMachine(std::span<const uint8_t> bytes, const std::string& where, std::vector<PickleNode>& nodes)
        : PickleMachine(bytes, where, nodes, otherwise) {}

    std::vector<TorchStorage> storages;
    std::vector<TorchTensor> tensors;  ///< all, without names

private:
    std::string_view known(const std::string& name) const override {
        for (const std::string_view ours : {ordered_dict, rebuild, rebuild_before, rebuild_parameter})
            if (name == ours) return ours;
        for (const auto& [ours, type] : storage_types)
            if (name == ours) return ours;
        return "";
    }
    // Allows any value, because training scripts save other values beside the state_dict.
    bool may_list(const Node&) const override { return true; }
    bool may_be_key(const Node& key) const override { return key.kind == Node::text || key.kind == Node::number; }

    bool run_further(uint8_t operation) override {
        constexpr uint8_t persistent = 'Q', long_number = 0x8a, real_number = 'G';
        if (operation == persistent)
            push(storage_of(pop()));
        else if (operation == long_number)
            push(long_of(take(take_byte())));
        else if (operation == real_number)
            push({.kind = Node::none, .bytes = take(8)});
        else
            return false;
        return true;
    }
    static Node long_of(std::string_view digits) {
        if (digits.size() > 8) return {.kind = Node::none, .bytes = digits};
        uint64_t value = !digits.empty() && uint8_t(digits.back()) >= 0x80 ? ~uint64_t(0) : 0;
        for (size_t i = digits.size(); i-- > 0;) value = value << 8 | uint8_t(digits[i]);
        return {.kind = Node::number, .value = int64_t(value), .bytes = digits};
    }

    /// Returns the storage that ('storage', class, key, device, count) describes; older files
    /// append None.
    Node storage_of(uint32_t id) {
        const bool old = nodes_[id].items.size() == 6;
        const auto& given = tuple(id, old ? 6 : 5, "names of storages");
        const Node &type = nodes_[given[1]], &key = nodes_[given[2]], &count = nodes_[given[4]];
        const auto* found =
            std::ranges::find(storage_types, type.bytes, &std::pair<std::string_view, const char*>::first);
        if (!is_text(given[0], "storage") || type.kind != Node::name || found == std::end(storage_types) ||
            key.kind != Node::text || key.bytes.size() > longest_key || key.bytes.find('\0') != key.bytes.npos ||
            count.kind != Node::number || count_of({count.value}) < 0 || (old && nodes_[given[5]].kind != Node::none))
            refuse("has other names of storages");
        const auto [known, is_new] = by_key_.try_emplace(key.bytes, storages.size());
        if (is_new) storages.push_back({found->second, std::string(key.bytes), count.value});
        // PyTorch would take the first type and number of elements for all tensors.
        const TorchStorage& storage = storages[known->second];
        if (storage.type != found->second || storage.count != count.value)
            refuse("names storage " + storage.key + " with two types or sizes");
        return {.kind = Node::storage, .value = int64_t(known->second)};
    }

    Node call(std::string_view name, uint32_t arguments) override {
        if (nodes_[arguments].kind != Node::tuple) refuse("calls without arguments");
        const std::vector<uint32_t>& given = nodes_[arguments].items;
        if (name == ordered_dict) {
            if (!given.empty()) refuse("has other arguments of OrderedDict");
            return {.kind = Node::dict};
        }
        if (name == rebuild_parameter) {
            if (given.size() != 3 || nodes_[given[0]].kind != Node::tensor)
                refuse("has other arguments of a parameter");
            return {.kind = Node::tensor, .value = nodes_[given[0]].value};
        }
        const size_t most = name == rebuild ? 7 : 4, least = name == rebuild ? 6 : 4;
        if ((name != rebuild && name != rebuild_before) || given.size() < least || given.size() > most)
            refuse("has other arguments of a tensor");
        if (given.size() == most && name == rebuild) check_no_metadata(nodes_[given.back()]);
        tensors.push_back(tensor_of(given));
        return {.kind = Node::tensor, .value = int64_t(tensors.size()) - 1};
    }

    /// Refuses a tensor whose metadata change its values: {"neg": true} means that they are
    /// negated.
    void check_no_metadata(const Node& metadata) const {
        const bool empty = (metadata.kind == Node::none || metadata.kind == Node::dict) && metadata.items.empty() &&
                           metadata.bytes.empty();
        if (!empty) refuse("has a tensor with metadata; save a copy of it, as clone() makes one");
    }

    /// Returns the view (storage, first element, shape, strides, …).
    TorchTensor tensor_of(const std::vector<uint32_t>& given) const {
        const Node &storage = nodes_[given[0]], &first = nodes_[given[1]];
        if (storage.kind != Node::storage || first.kind != Node::number || first.value < 0)
            refuse("has other arguments of a tensor");
        TorchTensor t{.name = {},
                      .storage = size_t(storage.value),
                      .first = first.value,
                      .shape = sides(given[2]),
                      .strides = sides(given[3])};
        if (t.shape.size() != t.strides.size()) refuse("has a tensor whose shape and strides differ in length");
        const int64_t count = count_of(t.shape), held = storages[t.storage].count;
        const std::string what =
            "has a tensor of shape " + shape_text(t.shape) + " in a storage of " + std::to_string(held) + " elements";
        if (count < 0) refuse(what);
        if (count == 0) t.first = 0;
        if (count == 0) return t;
        int64_t last = first.value;
        for (size_t i = 0; i < t.shape.size(); ++i) {
            const int64_t step = t.strides[i], steps = t.shape[i] - 1;
            if (last >= held || (step > 0 && steps > held / step)) refuse(what);
            last += step * steps;
        }
        if (last >= held) refuse(what);
        return t;
    }
    std::map<std::string_view, size_t> by_key_;  // the index of each storage

    /// Returns the whole numbers of a tuple of at most eight.
    std::vector<int64_t> sides(uint32_t index) const {
        constexpr size_t most = 8;
        const Node& node = nodes_[index];
        std::vector<int64_t> values;
        if (node.kind != Node::tuple || node.items.size() > most) refuse("has other arguments of a tensor");
        for (const uint32_t item : node.items) {
            if (nodes_[item].kind != Node::number || nodes_[item].value < 0) refuse("has other arguments of a tensor");
            values.push_back(nodes_[item].value);
        }
        return values;
    }

    /// Ignores attributes of a state_dict, because they say nothing about its tensors.
    void fill(Node& object, uint32_t state) override {
        if (object.kind != Node::dict || nodes_[state].kind != Node::dict) refuse("fills what is no OrderedDict");
    }
};

using Nodes = std::vector<PickleNode>;

/// Returns the last value of `key` in a dict; null if there is none, or if `dict` is no dict.
const PickleNode* entry(const Nodes& nodes, const PickleNode& dict, std::string_view key) {
    if (dict.kind != PickleNode::dict) return nullptr;
    for (size_t i = dict.items.size(); i > 0; i -= 2) {
        const PickleNode& name = nodes[dict.items[i - 2]];
        if (name.kind == PickleNode::text && name.bytes == key) return &nodes[dict.items[i - 1]];
    }
    return nullptr;
}

/// Returns the dict of tensors.
const PickleNode& state_dict(const Nodes& nodes, uint32_t root, const std::string& where, const std::string& key) {
    const PickleNode& top = nodes[root];
    if (top.kind != PickleNode::dict) fail(Exit::bad_input, where + ": holds no dict; " + otherwise);
    const auto dict_at = [&](std::string_view name) {
        const PickleNode* found = entry(nodes, top, name);
        return found && found->kind == PickleNode::dict ? found : nullptr;
    };
    if (!key.empty()) {
        if (const PickleNode* found = dict_at(key)) return *found;
    } else {
        for (size_t i = 1; i < top.items.size(); i += 2)
            if (nodes[top.items[i]].kind == PickleNode::tensor) return top;
        for (const char* usual : {"state_dict", "model", "model_state_dict"})
            if (const PickleNode* found = dict_at(usual)) return *found;
    }
    constexpr size_t most = 200, most_of_one = 40;  // bytes, because a text of any length may come again and again
    std::string keys;
    for (size_t i = 0; i < top.items.size() && keys.size() <= most; i += 2)
        keys += (i > 0 ? ", " : "") +
                shortened(std::string(nodes[top.items[i]].bytes.substr(0, most_of_one + 1)), most_of_one);
    fail(Exit::bad_input, where + ": has no state_dict" + (key.empty() ? "" : " at key '" + key + "'") +
                              "; name the key of one with --key: " + shortened(keys, most));
}

TorchPickle named_tensors(TorchMachine& machine, const Nodes& nodes, uint32_t top, const std::string& where,
                          const std::string& key) {
    TorchPickle result{.storages = {}, .tensors = {}, .bytes = machine.end()};
    const PickleNode& dict = state_dict(nodes, top, where, key);
    std::set<std::string_view> names;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
        const PickleNode &name = nodes[dict.items[i]], &value = nodes[dict.items[i + 1]];
        if (value.kind != PickleNode::tensor) continue;
        if (name.kind != PickleNode::text || !names.insert(name.bytes).second)
            fail(Exit::bad_input,
                 where + ": has two tensors '" + shortened(std::string(name.bytes)) + "'; " + otherwise);
        result.tensors.push_back(machine.tensors[value.value]);
        result.tensors.back().name = name.bytes;
    }
    if (result.tensors.empty()) fail(Exit::bad_input, where + ": its dict holds no tensors; " + otherwise);
    result.storages = std::move(machine.storages);
    return result;
}

}  // namespace

TorchPickle read_torch_pickle(std::span<const uint8_t> bytes, const std::string& where, const std::string& key) {
    Nodes nodes;
    TorchMachine machine(bytes, where, nodes);
    const uint32_t top = machine.run();
    return named_tensors(machine, nodes, top, where, key);
}

OldTorchPickles read_old_torch_pickles(std::span<const uint8_t> bytes, const std::string& where,
                                       const std::string& key) {
    constexpr std::array<char, 10> magic = {'\x6c', '\xfc', '\x9c', '\x46', '\xf9',
                                            '\x20', '\x6a', '\xa8', '\x50', '\x19'};
    constexpr int64_t protocol = 1001;
    size_t at = 0;
    Nodes nodes;
    const auto run = [&]() -> const PickleNode& {
        TorchMachine machine(bytes.subspan(at), where, nodes);
        const uint32_t top = machine.run();
        at += machine.end();
        return nodes[top];
    };
    const auto refuse = [&] { fail(Exit::bad_input, where + ": is no file of torch.save(); " + otherwise); };
    if (run().bytes != std::string_view(magic.data(), magic.size())) refuse();
    if (const PickleNode& version = run(); version.kind != PickleNode::number || version.value != protocol) refuse();
    const PickleNode* little = entry(nodes, run(), "little_endian");
    if (!little || little->value != 1) refuse();
    OldTorchPickles result;
    result.state = read_torch_pickle(bytes.subspan(at), where, key);
    at += result.state.bytes;
    const PickleNode& keys = run();
    if (keys.kind != PickleNode::list) refuse();
    for (const uint32_t item : keys.items) {
        if (nodes[item].kind != PickleNode::text || nodes[item].bytes.size() > longest_key) refuse();
        result.keys.emplace_back(nodes[item].bytes);
    }
    result.state.bytes = at;
    return result;
}

}  // namespace convoy
