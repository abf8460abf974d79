// Reads the pickles of CIFAR's Python archives, and no others: a dict of texts, whole numbers,
// lists of these, and matrices of bytes, in protocol 2. Calls and imports nothing. It accepts the
// five names that numpy and Python write there, and refuses all others.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

/// A numpy array of uint8.
struct ByteMatrix {
    int64_t rows = 0, columns = 0;
    bool by_columns = false;  ///< column-major (Fortran's order)
    std::string_view bytes;   ///< [rows * columns]

    uint8_t at(int64_t row, int64_t column) const {
        return uint8_t(bytes[by_columns ? column * rows + row : row * columns + column]);
    }
};

/// A value in a pickle. Values refer to each other by index, so that nesting needs no recursion.
struct PickleNode {
    enum Kind { none, boolean, number, text, list, tuple, dict, matrix, dtype, name, storage, tensor } kind = none;
    int64_t value = 0;              ///< boolean or number: the value; storage or tensor: its index
    std::string_view bytes{};       ///< text, name: the characters; long or real number: its bytes
    std::vector<uint32_t> items{};  ///< list, tuple: indices of items; dict: of key, value, key, value …
    ByteMatrix array{};             ///< matrix: its content
};

class Pickle {
public:
    /// Reads a pickle from `bytes`, which must outlive the object. Throws Exit::bad_input with
    /// `where`, the offset, and the problem there.
    Pickle(std::span<const uint8_t> bytes, const std::string& where);
    Pickle(const Pickle&) = delete;

    // Return an entry of the dict. Throw Exit::bad_input if it is missing or of another kind.
    const ByteMatrix& matrix(const std::string& key) const;
    std::vector<int64_t> numbers(const std::string& key) const;
    std::vector<std::string_view> texts(const std::string& key) const;  ///< valid as long as this object

private:
    const PickleNode& entry(const std::string& key, PickleNode::Kind, const std::string& kind) const;
    std::vector<const PickleNode*> list(const std::string& key, PickleNode::Kind, const std::string& kind) const;

    std::string where_;
    std::deque<std::string> decoded_;  // texts that had to be decoded, and so are no views of `bytes`
    std::vector<PickleNode> nodes_;
    uint32_t dict_ = 0;
};

}  // namespace convoy
