// Implements the 30 operations of Python's pickle machine that the archives use. A limit on the
// number of operations bounds time and memory for any file.
#include "data/pickle_machine.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace convoy {
namespace {

using Node = PickleNode;

constexpr size_t most_operations = 1'000'000;  // CIFAR-100's 50,000 images take 250,000
constexpr std::string_view reconstruct = "numpy.core.multiarray._reconstruct",
                           reconstruct_numpy2 = "numpy._core.multiarray._reconstruct", array_type = "numpy.ndarray",
                           dtype_type = "numpy.dtype", encode = "_codecs.encode";

enum Operation : uint8_t {
    mark = '(',
    stop = '.',
    put_long = 'r',
    put_short = 'q',
    get_long = 'j',
    get_short = 'h',
    push_none = 'N',
    push_int = 'J',
    push_byte = 'K',
    push_short = 'M',
    push_bytes = 'T',
    push_few_bytes = 'U',
    push_unicode = 'X',
    empty_list = ']',
    empty_dict = '}',
    empty_tuple = ')',
    append = 'a',
    append_all = 'e',
    set_item = 's',
    set_items = 'u',
    make_tuple = 't',
    import_name = 'c',
    call = 'R',
    build = 'b',
    protocol = 0x80,
    tuple1 = 0x85,
    tuple2 = 0x86,
    tuple3 = 0x87,
    push_true = 0x88,
    push_false = 0x89
};

class Machine {
public:
    Machine(std::span<const uint8_t> bytes, const std::string& where, std::vector<Node>& nodes,
            std::deque<std::string>& decoded)
        : bytes_(bytes), where_(where), nodes_(nodes), decoded_(decoded) {}

    /// Runs all operations. Returns the index of the outermost dict.
    uint32_t run() {
        if (take_byte() != protocol || take_byte() != 2) refuse("is no pickle of protocol 2");
        for (size_t operations = 0;; ++operations) {
            at_ = next_;
            if (operations == most_operations) refuse("has more operations than CIFAR's archives");
            const uint8_t operation = take_byte();
            if (operation == stop) break;
            if (!push_value(operation) && !remember(operation) && !collect(operation) && !construct(operation))
                refuse(formatted("holds operation 0x%02x", operation));
        }
        const uint32_t result = pop();
        if (!stack_.empty() || next_ != bytes_.size() || nodes_[result].kind != Node::dict)
            refuse("does not end with one dict");
        return result;
    }

private:
    [[noreturn]] void refuse(const std::string& what) const {
        fail(Exit::bad_input, where_ + ": byte " + std::to_string(at_) + ": " + what +
                                  "; it is none of CIFAR's pickles, or damaged: get it again");
    }

    std::string_view take(size_t count) {
        if (count > bytes_.size() - next_)
            fail(Exit::bad_input, where_ + ": byte " + std::to_string(at_) + ": ends " +
                                      std::to_string(count - (bytes_.size() - next_)) +
                                      " bytes early: it is truncated, get it again");
        next_ += count;
        return {reinterpret_cast<const char*>(bytes_.data()) + next_ - count, count};
    }
    uint8_t take_byte() { return uint8_t(take(1)[0]); }
    uint32_t take_number(size_t width) {
        uint32_t number = 0;
        const std::string_view digits = take(width);
        for (size_t i = 0; i < width; ++i) number |= uint32_t(uint8_t(digits[i])) << 8 * i;
        return number;
    }
    std::string_view take_line() {
        constexpr size_t longest = 64;
        size_t length = 0;
        while (length < std::min(longest, bytes_.size() - next_) && bytes_[next_ + length] != '\n') ++length;
        const std::string_view line = take(length);
        if (take_byte() != '\n') refuse("holds a name of more than 64 letters");
        return line;
    }

    void push(Node node) {
        stack_.push_back(uint32_t(nodes_.size()));
        nodes_.push_back(std::move(node));
    }
    /// Pops a value. Refuses to pop below the last mark.
    uint32_t pop() {
        if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("takes a value that is not there");
        const uint32_t top = stack_.back();
        stack_.pop_back();
        return top;
    }
    std::vector<uint32_t> pop(size_t count) {
        std::vector<uint32_t> items(count);
        for (size_t i = count; i-- > 0;) items[i] = pop();
        return items;
    }
    std::vector<uint32_t> pop_to_mark() {
        if (marks_.empty()) refuse("takes a mark that is not there");
        std::vector<uint32_t> items(stack_.begin() + std::ptrdiff_t(marks_.back()), stack_.end());
        stack_.resize(marks_.back());
        marks_.pop_back();
        return items;
    }
    Node& top(Node::Kind kind, const char* what) {
        const uint32_t index = pop();
        stack_.push_back(index);
        if (nodes_[index].kind != kind) refuse(std::string("has no ") + what + " here");
        return nodes_[index];
    }

    bool push_value(uint8_t operation) {
        const auto number = [](Node::Kind kind, int64_t value) { return Node{.kind = kind, .value = value}; };
        const auto text = [](std::string_view bytes) { return Node{.kind = Node::text, .bytes = bytes}; };
        switch (operation) {
            case push_none: push({}); return true;
            case push_true: push(number(Node::boolean, 1)); return true;
            case push_false: push(number(Node::boolean, 0)); return true;
            case push_byte: push(number(Node::number, take_number(1))); return true;
            case push_short: push(number(Node::number, take_number(2))); return true;
            case push_int: push(number(Node::number, int32_t(take_number(4)))); return true;
            case push_few_bytes: push(text(take(take_number(1)))); return true;
            case push_bytes:
            case push_unicode: push(text(take(take_number(4)))); return true;
            case empty_list: push({.kind = Node::list}); return true;
            case empty_dict: push({.kind = Node::dict}); return true;
            case empty_tuple: push({.kind = Node::tuple}); return true;
            default: return false;
        }
    }

    bool remember(uint8_t operation) {
        switch (operation) {
            case mark: marks_.push_back(stack_.size()); return true;
            case put_short: put(take_number(1)); return true;
            case put_long: put(take_number(4)); return true;
            case get_short: get(take_number(1)); return true;
            case get_long: get(take_number(4)); return true;
            default: return false;
        }
    }
    void put(uint32_t place) {
        if (place >= most_operations) refuse("remembers value " + std::to_string(place));
        if (place >= memo_.size()) memo_.resize(place + 1, unset);
        const uint32_t index = pop();
        stack_.push_back(index);
        memo_[place] = index;
    }
    void get(uint32_t place) {
        if (place >= memo_.size() || memo_[place] == unset) refuse("recalls value " + std::to_string(place));
        stack_.push_back(memo_[place]);
    }

    bool collect(uint8_t operation) {
        switch (operation) {
            case append: add_to_list(pop(1)); return true;
            case append_all: add_to_list(pop_to_mark()); return true;
            case set_item: add_to_dict(pop(2)); return true;
            case set_items: add_to_dict(pop_to_mark()); return true;
            case make_tuple: push({.kind = Node::tuple, .items = pop_to_mark()}); return true;
            case tuple1: push({.kind = Node::tuple, .items = pop(1)}); return true;
            case tuple2: push({.kind = Node::tuple, .items = pop(2)}); return true;
            case tuple3: push({.kind = Node::tuple, .items = pop(3)}); return true;
            default: return false;
        }
    }
    void add_to_list(const std::vector<uint32_t>& items) {
        Node& list = top(Node::list, "list");
        for (const uint32_t item : items)
            if (nodes_[item].kind != Node::text && nodes_[item].kind != Node::number)
                refuse("has a list of other things than texts and whole numbers");
        list.items.insert(list.items.end(), items.begin(), items.end());
    }
    void add_to_dict(const std::vector<uint32_t>& items) {
        Node& dict = top(Node::dict, "dict");
        if (items.size() % 2 != 0) refuse("has a key without a value");
        for (size_t i = 0; i < items.size(); i += 2)
            if (nodes_[items[i]].kind != Node::text) refuse("has a key that is no text");
        dict.items.insert(dict.items.end(), items.begin(), items.end());
    }

    bool construct(uint8_t operation) {
        switch (operation) {
            case import_name: recognise(); return true;
            case call: make(); return true;
            case build: fill(); return true;
            default: return false;
        }
    }
    void recognise() {
        const std::string module(take_line()), name = module + "." + std::string(take_line());
        for (const std::string_view known : {reconstruct, reconstruct_numpy2, array_type, dtype_type, encode})
            if (name == known) return push({.kind = Node::name, .bytes = known});
        refuse("wants " + printable(name));
    }

    bool is_number(uint32_t index, int64_t value) const {
        const Node& node = nodes_[index];
        return (node.kind == Node::number || node.kind == Node::boolean) && node.value == value;
    }
    bool is_text(uint32_t index, std::string_view text) const {
        return nodes_[index].kind == Node::text && nodes_[index].bytes == text;
    }
    /// Returns the items of a tuple that must have `count`.
    const std::vector<uint32_t>& tuple(uint32_t index, size_t count, const char* what) const {
        if (nodes_[index].kind != Node::tuple || nodes_[index].items.size() != count)
            refuse(std::string("has other ") + what);
        return nodes_[index].items;
    }

    /// Pops arguments and a known name, and pushes the result of that call.
    void make() {
        const uint32_t arguments = pop(), callee = pop();
        if (nodes_[callee].kind != Node::name) refuse("calls what has no name");
        const std::string_view name = nodes_[callee].bytes;
        if (name == encode) {
            const auto& given = tuple(arguments, 2, "arguments of encode");
            if (nodes_[given[0]].kind != Node::text || !is_text(given[1], "latin1")) refuse("encodes other things");
            push({.kind = Node::text, .bytes = latin1(nodes_[given[0]].bytes)});
        } else if (name == dtype_type) {
            const auto& given = tuple(arguments, 3, "arguments of dtype");
            if (!is_text(given[0], "u1") || !is_number(given[1], 0) || !is_number(given[2], 1))
                refuse("has arrays of another type than uint8");
            push({.kind = Node::dtype});
        } else if (name == reconstruct || name == reconstruct_numpy2) {
            const auto& given = tuple(arguments, 3, "arguments of _reconstruct");
            const auto& shape = tuple(given[1], 1, "arguments of _reconstruct");
            if (nodes_[given[0]].bytes != array_type || !is_number(shape[0], 0) || !is_text(given[2], "b"))
                refuse("constructs other things than arrays");
            push({.kind = Node::matrix});
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
        if (decoded_bytes_ > bytes_.size()) refuse("encodes one text again and again");
        return decoded_.emplace_back(std::move(decoded));
    }

    /// Pops a state and applies it to the object below, which stays on the stack.
    void fill() {
        const uint32_t state = pop(), index = pop();
        stack_.push_back(index);
        if (nodes_[index].kind == Node::dtype) {
            const auto& given = tuple(state, 8, "details of uint8");
            if (!is_number(given[0], 3) || !is_text(given[1], "|")) refuse("has other details of uint8");
        } else if (nodes_[index].kind == Node::matrix) {
            nodes_[index].array = matrix_of(tuple(state, 5, "details of an array"));
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

    static constexpr uint32_t unset = UINT32_MAX;
    const std::span<const uint8_t> bytes_;
    const std::string& where_;
    std::vector<Node>& nodes_;
    std::deque<std::string>& decoded_;
    size_t at_ = 0, next_ = 0, decoded_bytes_ = 0;  // at_: offset of the current operation
    std::vector<uint32_t> stack_, memo_;
    std::vector<size_t> marks_;  // sizes of the stack at the marks
};

}  // namespace

uint32_t run_pickle(std::span<const uint8_t> bytes, const std::string& where, std::vector<PickleNode>& nodes,
                    std::deque<std::string>& decoded) {
    return Machine(bytes, where, nodes, decoded).run();
}

}  // namespace convoy
