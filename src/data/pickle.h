// Reads the pickles of CIFAR's Python archives, and nothing else: a dict of texts, whole numbers,
// lists of these, and matrices of bytes, in protocol 2. Nothing is called or imported: the five
// names that numpy and Python put there are recognised, and all others are refused.
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
    bool by_columns = false;  ///< Fortran's order
    std::string_view bytes;   ///< [rows * columns]

    uint8_t at(int64_t row, int64_t column) const {
        return uint8_t(bytes[size_t(by_columns ? column * rows + row : row * columns + column)]);
    }
};

/// The parts of a pickle. They refer to one another by index: what a file nests costs no recursion.
struct PickleNode {
    enum Kind { none, boolean, number, text, list, tuple, dict, matrix, dtype, name } kind = none;
    int64_t value = 0;              ///< of a boolean or number
    std::string_view bytes{};       ///< of a text; of a name: "numpy.ndarray"
    std::vector<uint32_t> items{};  ///< of a list or tuple; of a dict: key, value, key, value …
    ByteMatrix array{};             ///< of a matrix
};

class Pickle {
public:
    /// `bytes` must outlive it. Throws Exit::bad_input: `where`, the offset, and what stands there.
    Pickle(std::span<const uint8_t> bytes, const std::string& where);
    Pickle(const Pickle&) = delete;

    // An entry of the dict. Throw Exit::bad_input if there is none, or it is of another kind.
    const ByteMatrix& matrix(const std::string& key) const;
    std::vector<int64_t> numbers(const std::string& key) const;
    std::vector<std::string_view> texts(const std::string& key) const;  ///< live as long as this

private:
    const PickleNode& entry(const std::string& key, PickleNode::Kind, const std::string& kind) const;
    std::vector<const PickleNode*> list(const std::string& key, PickleNode::Kind, const std::string& kind) const;

    std::string where_;
    std::deque<std::string> decoded_;  // texts that are not in `bytes` as they are
    std::vector<PickleNode> nodes_;
    uint32_t dict_ = 0;
};

}  // namespace convoy
