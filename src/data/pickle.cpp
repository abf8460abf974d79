// Looks up entries of a pickle's dict by key.
#include "data/pickle.h"

#include "base/error.h"
#include "data/pickle_machine.h"

namespace convoy {

Pickle::Pickle(std::span<const uint8_t> bytes, const std::string& where)
    : where_(where), dict_(run_pickle(bytes, where_, nodes_, decoded_)) {}

const PickleNode& Pickle::entry(const std::string& key, PickleNode::Kind kind, const std::string& what) const {
    const std::vector<uint32_t>& items = nodes_[dict_].items;
    for (size_t i = items.size(); i > 0; i -= 2)
        if (nodes_[items[i - 2]].bytes == key) {
            if (nodes_[items[i - 1]].kind != kind) fail(Exit::bad_input, where_ + ": '" + key + "' is no " + what);
            return nodes_[items[i - 1]];
        }
    fail(Exit::bad_input, where_ + ": has no '" + key + "'; is it of another data set? get it again");
}

std::vector<const PickleNode*> Pickle::list(const std::string& key, PickleNode::Kind kind,
                                            const std::string& what) const {
    std::vector<const PickleNode*> items;
    for (const uint32_t index : entry(key, PickleNode::list, "list").items) {
        if (nodes_[index].kind != kind) fail(Exit::bad_input, where_ + ": '" + key + "' is no list of " + what);
        items.push_back(&nodes_[index]);
    }
    return items;
}

const ByteMatrix& Pickle::matrix(const std::string& key) const {
    return entry(key, PickleNode::matrix, "array of bytes").array;
}

std::vector<int64_t> Pickle::numbers(const std::string& key) const {
    std::vector<int64_t> values;
    for (const PickleNode* node : list(key, PickleNode::number, "whole numbers")) values.push_back(node->value);
    return values;
}

std::vector<std::string_view> Pickle::texts(const std::string& key) const {
    std::vector<std::string_view> values;
    for (const PickleNode* node : list(key, PickleNode::text, "texts")) values.emplace_back(node->bytes);
    return values;
}

}  // namespace convoy
