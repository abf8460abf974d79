// Implements the 30 operations of Python's pickle machine that protocol 2 writes for plain values.
// A limit on the number of operations bounds time and memory for any file.
#include "data/pickle_machine.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr size_t most_operations = 1'000'000;  // CIFAR-100's 50,000 images take 250,000
constexpr uint32_t unset = UINT32_MAX;

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
    reduce = 'R',
    build = 'b',
    protocol = 0x80,
    tuple1 = 0x85,
    tuple2 = 0x86,
    tuple3 = 0x87,
    push_true = 0x88,
    push_false = 0x89
};

}  // namespace

uint32_t PickleMachine::run() {
    if (take_byte() != protocol || take_byte() != 2) refuse("is no pickle of protocol 2");
    for (size_t operations = 0;; ++operations) {
        at_ = next_;
        if (operations == most_operations) refuse("has more operations than any good file");
        const uint8_t operation = take_byte();
        if (operation == stop) break;
        if (!push_value(operation) && !remember(operation) && !collect(operation) && !construct(operation) &&
            !run_further(operation))
            refuse(formatted("holds operation 0x%02x", operation));
    }
    const uint32_t result = pop();
    if (!stack_.empty()) refuse("does not end with one value");
    return result;
}

void PickleMachine::refuse(const std::string& what) const {
    fail(Exit::bad_input, where_ + ": byte " + std::to_string(at_) + ": " + what + "; " + otherwise_);
}

std::string_view PickleMachine::take(size_t count) {
    if (count > bytes_.size() - next_)
        fail(Exit::bad_input, where_ + ": byte " + std::to_string(at_) + ": ends " +
                                  std::to_string(count - (bytes_.size() - next_)) +
                                  " bytes early: it is truncated, get it again");
    next_ += count;
    return {reinterpret_cast<const char*>(bytes_.data()) + next_ - count, count};
}

uint32_t PickleMachine::take_number(size_t width) {
    uint32_t number = 0;
    const std::string_view digits = take(width);
    for (size_t i = 0; i < width; ++i) number |= uint32_t(uint8_t(digits[i])) << 8 * i;
    return number;
}

std::string_view PickleMachine::take_line() {
    constexpr size_t longest = 64;
    size_t length = 0;
    while (length < std::min(longest, bytes_.size() - next_) && bytes_[next_ + length] != '\n') ++length;
    const std::string_view line = take(length);
    if (take_byte() != '\n') refuse("holds a name of more than 64 letters");
    return line;
}

void PickleMachine::push(Node node) {
    stack_.push_back(uint32_t(nodes_.size()));
    nodes_.push_back(std::move(node));
}

/// Pops a value. Refuses to pop below the last mark.
uint32_t PickleMachine::pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("takes a value that is not there");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
}

std::vector<uint32_t> PickleMachine::pop(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
}

std::vector<uint32_t> PickleMachine::pop_to_mark() {
    if (marks_.empty()) refuse("takes a mark that is not there");
    std::vector<uint32_t> items(stack_.begin() + std::ptrdiff_t(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
}

PickleNode& PickleMachine::top(Node::Kind kind, const char* what) {
    const uint32_t index = pop();
    stack_.push_back(index);
    if (nodes_[index].kind != kind) refuse(std::string("has no ") + what + " here");
    return nodes_[index];
}

bool PickleMachine::push_value(uint8_t operation) {
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

bool PickleMachine::remember(uint8_t operation) {
    switch (operation) {
        case mark: marks_.push_back(stack_.size()); return true;
        case put_short: put(take_number(1)); return true;
        case put_long: put(take_number(4)); return true;
        case get_short: get(take_number(1)); return true;
        case get_long: get(take_number(4)); return true;
        default: return false;
    }
}

void PickleMachine::put(uint32_t place) {
    if (place >= most_operations) refuse("remembers value " + std::to_string(place));
    if (place >= memo_.size()) memo_.resize(place + 1, unset);
    const uint32_t index = pop();
    stack_.push_back(index);
    memo_[place] = index;
}

void PickleMachine::get(uint32_t place) {
    if (place >= memo_.size() || memo_[place] == unset) refuse("recalls value " + std::to_string(place));
    stack_.push_back(memo_[place]);
}

bool PickleMachine::collect(uint8_t operation) {
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

void PickleMachine::add_to_list(const std::vector<uint32_t>& items) {
    Node& list = top(Node::list, "list");
    for (const uint32_t item : items)
        if (!may_list(nodes_[item])) refuse("has a list of other things than texts and whole numbers");
    list.items.insert(list.items.end(), items.begin(), items.end());
}

void PickleMachine::add_to_dict(const std::vector<uint32_t>& items) {
    Node& dict = top(Node::dict, "dict");
    if (items.size() % 2 != 0) refuse("has a key without a value");
    for (size_t i = 0; i < items.size(); i += 2)
        if (!may_be_key(nodes_[items[i]])) refuse("has a key that is no text");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
}

bool PickleMachine::construct(uint8_t operation) {
    switch (operation) {
        case import_name: import_known(); return true;
        case reduce: {
            const uint32_t arguments = pop(), callee = pop();
            if (nodes_[callee].kind != Node::name) refuse("calls what has no name");
            push(call(nodes_[callee].bytes, arguments));
            return true;
        }
        case build: {
            const uint32_t state = pop(), object = pop();
            stack_.push_back(object);
            fill(nodes_[object], state);
            return true;
        }
        default: return false;
    }
}

void PickleMachine::import_known() {
    const std::string module(take_line()), name = module + "." + std::string(take_line());
    const std::string_view found = known(name);
    if (found.empty()) refuse("wants " + printable(name));
    push({.kind = Node::name, .bytes = found});
}

bool PickleMachine::is_number(uint32_t index, int64_t value) const {
    const Node& node = nodes_[index];
    return (node.kind == Node::number || node.kind == Node::boolean) && node.value == value;
}

bool PickleMachine::is_text(uint32_t index, std::string_view text) const {
    return nodes_[index].kind == Node::text && nodes_[index].bytes == text;
}

const std::vector<uint32_t>& PickleMachine::tuple(uint32_t index, size_t count, const char* what) const {
    if (nodes_[index].kind != Node::tuple || nodes_[index].items.size() != count)
        refuse(std::string("has other ") + what);
    return nodes_[index].items;
}

}  // namespace convoy
