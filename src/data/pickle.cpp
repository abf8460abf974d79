// Knows the objects in CIFAR's pickles, and looks up entries of their dict by key.
#include "data/pickle.h"

#include "base/error.h"
#include "data/pickle_machine.h"

namespace convoy {
namespace {

constexpr std::string_view reconstruct = "numpy.core.multiarray._reconstruct",
                           reconstruct_numpy2 = "numpy._core.multiarray._reconstruct", array_type = "numpy.ndarray",
                           dtype_type = "numpy.dtype", encode = "_codecs.encode";

class CifarMachine : public PickleMachine {
public:
    CifarMachine(std::span<const uint8_t> bytes, const std::string& where, std::vector<PickleNode>& nodes,
                 std::deque<std::string>& decoded)
        : PickleMachine(bytes, where, nodes, "it is none of CIFAR's pickles, or damaged: get it again"),
          decoded_(decoded) {}

    /// Runs the pickle, which must be one dict. Returns the dict's index.
    uint32_t run_all() {
        const uint32_t result = run();
        if (end() != size() || nodes_[result].kind != Node::dict) refuse("does not end with one dict");
        return result;
    }

private:
    std::string_view known(const std::string& name) const override {
        for (const std::string_view ours : {reconstruct, reconstruct_numpy2, array_type, dtype_type, encode})
            if (name == ours) return ours;
        return "";
    }

    Node call(std::string_view name, uint32_t arguments) override {
        if (name == encode) {
            const auto& given = tuple(arguments, 2, "arguments of encode");
            if (nodes_[given[0]].kind != Node::text || !is_text(given[1], "latin1")) refuse("encodes other things");
            return {.kind = Node::text, .bytes = latin1(nodes_[given[0]].bytes)};
        } else if (name == dtype_type) {
            const auto& given = tuple(arguments, 3, "arguments of dtype");
            if (!is_text(given[0], "u1") || !is_number(given[1], 0) || !is_number(given[2], 1))
                refuse("has arrays of another type than uint8");
            return {.kind = Node::dtype};
        } else if (name == reconstruct || name == reconstruct_numpy2) {
            const auto& given = tuple(arguments, 3, "arguments of _reconstruct");
            const auto& shape = tuple(given[1], 1, "arguments of _reconstruct");
            if (nodes_[given[0]].bytes != array_type || !is_number(shape[0], 0) || !is_text(given[2], "b"))
                refuse("constructs other things than arrays");
            return {.kind = Node::matrix};
        } else {
            refuse("calls " + std::string(name));
        }
    }

    /// Returns bytes that Python 3 wrote as UTF-8 text, one character per byte.
    std::string_view latin1(std::string_view utf8) {
        std::string decoded;
        for (size_t i = 0; i < utf8.size(); ++i) {
            const auto byte = uint8_t(utf8[i]), next = uint8_t(i + 1 < utf8.size() ? utf8[i + 1] : 0);
            const bool two = byte == 0xc2 || byte == 0xc3;
            if (byte >= 0x80 && (!two || next >> 6 != 2)) refuse("encodes letters that latin1 has not");
            decoded += two ? char(byte << 6 | (next & 0x3f)) : char(byte);
            i += two;
        }
        decoded_bytes_ += decoded.size();
        if (decoded_bytes_ > size()) refuse("encodes one text again and again");
        return decoded_.emplace_back(std::move(decoded));
    }

    void fill(Node& object, uint32_t state) override {
        if (object.kind == Node::dtype) {
            const auto& given = tuple(state, 8, "details of uint8");
            if (!is_number(given[0], 3) || !is_text(given[1], "|")) refuse("has other details of uint8");
        } else if (object.kind == Node::matrix) {
            object.array = matrix_of(tuple(state, 5, "details of an array"));
        } else {
            refuse("fills what is no array");
        }
    }
    ByteMatrix matrix_of(const std::vector<uint32_t>& state) const {
        const auto& shape = tuple(state[1], 2, "than two extents of an array");
        const Node &rows = nodes_[shape[0]], &columns = nodes_[shape[1]], &order = nodes_[state[3]],
                   &bytes = nodes_[state[4]];
        if (!is_number(state[0], 1) || nodes_[state[2]].kind != Node::dtype || rows.kind != Node::number ||
            columns.kind != Node::number || bytes.kind != Node::text ||
            (order.kind != Node::boolean && order.kind != Node::number))
            refuse("has other details of an array");
        if (rows.value < 0 || columns.value < 0 || rows.value * columns.value != int64_t(bytes.bytes.size()))
            refuse("has an array of " + std::to_string(rows.value) + " x " + std::to_string(columns.value) + " in " +
                   std::to_string(bytes.bytes.size()) + " bytes");
        return {rows.value, columns.value, order.value != 0, bytes.bytes};
    }

    std::deque<std::string>& decoded_;
    size_t decoded_bytes_ = 0;
};

}  // namespace

Pickle::Pickle(std::span<const uint8_t> bytes, const std::string& where)
    : where_(where), dict_(CifarMachine(bytes, where_, nodes_, decoded_).run_all()) {}

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
