// Interprets a pickle's operations, and so builds its values. A pickle may ask for any object of
// Python. A derived machine accepts the few that its files have, and refuses all others. No code
// of Python runs.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pickle.h"

namespace convoy {

class PickleMachine {
public:
    /// Appends all values to `nodes`. `otherwise`: the end of the message for a refused file, with
    /// advice. `bytes` and `nodes` must outlive the object.
    PickleMachine(std::span<const uint8_t> bytes, std::string where, std::vector<PickleNode>& nodes,
                  std::string otherwise)
        : nodes_(nodes), bytes_(bytes), where_(std::move(where)), otherwise_(std::move(otherwise)) {}
    virtual ~PickleMachine() = default;
    PickleMachine(const PickleMachine&) = delete;

    /// Runs all operations of one pickle. Returns the index of the outermost value. Throws
    /// Exit::bad_input with `where`, the offset, and the problem there.
    uint32_t run();
    /// Returns the number of bytes that were read.
    size_t end() const { return next_; }

protected:
    using Node = PickleNode;

    /// Returns `name` ("module.name") as a text that lives as long as the process, if it is known;
    /// else "".
    virtual std::string_view known(const std::string& name) const = 0;
    /// Returns the result of calling a known name.
    virtual Node call(std::string_view name, uint32_t arguments) = 0;
    /// Applies a state to an object.
    virtual void fill(Node& object, uint32_t state) = 0;
    /// Runs an operation that only some files have. Returns false for any other operation.
    virtual bool run_further(uint8_t) { return false; }
    /// Returns true if `item` is allowed in a list, or as a key of a dict.
    virtual bool may_list(const Node& item) const { return item.kind == Node::text || item.kind == Node::number; }
    virtual bool may_be_key(const Node& key) const { return key.kind == Node::text; }

    [[noreturn]] void refuse(const std::string& what) const;
    std::string_view take(size_t count);
    uint8_t take_byte() { return uint8_t(take(1)[0]); }
    uint32_t take_number(size_t width);
    void push(Node node);
    uint32_t pop();
    bool is_number(uint32_t index, int64_t value) const;
    bool is_text(uint32_t index, std::string_view text) const;
    /// Returns the items of a tuple that must have `count`.
    const std::vector<uint32_t>& tuple(uint32_t index, size_t count, const char* what) const;
    size_t size() const { return bytes_.size(); }

    std::vector<Node>& nodes_;

private:
    std::string_view take_line();
    std::vector<uint32_t> pop(size_t count);
    std::vector<uint32_t> pop_to_mark();
    Node& top(Node::Kind, const char* what);
    bool push_value(uint8_t operation);
    bool remember(uint8_t operation);
    void put(uint32_t place);
    void get(uint32_t place);
    bool collect(uint8_t operation);
    void add_to_list(const std::vector<uint32_t>& items);
    void add_to_dict(const std::vector<uint32_t>& items);
    bool construct(uint8_t operation);
    void import_known();

    const std::span<const uint8_t> bytes_;
    const std::string where_, otherwise_;
    size_t at_ = 0, next_ = 0;  // at_: offset of the current operation
    std::vector<uint32_t> stack_, memo_;
    std::vector<size_t> marks_;  // sizes of the stack at the marks
};

}  // namespace convoy
