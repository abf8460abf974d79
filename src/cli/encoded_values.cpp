#include "cli/encoded_values.h"

#include <cmath>

#include "base/bf16.h"
#include "base/text.h"

namespace convoy {
namespace {

template <class T> void append(std::vector<unsigned char>& bytes, T value) {
    const auto* begin = reinterpret_cast<const unsigned char*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
}

_Float16 to_f16(float v, const std::string& what) {
    const auto half = static_cast<_Float16>(v);
    if (std::isinf(float(half)) && !std::isinf(v))
        fail(Exit::bad_input, what + " has the value " + formatted("%g", double(v)) +
                                  ", which f16 cannot hold; take --dtype bf16 or f32");
    return half;
}

}  // namespace

std::vector<unsigned char> encoded(std::span<const float> values, DType type, const std::string& what) {
    std::vector<unsigned char> bytes;
    bytes.reserve(values.size() * size_of(type));
    for (const float v : values) {
        bf16 half{};
        assign(half, v);
        if (type == DType::f32)
            append(bytes, v);
        else if (type == DType::bf16)
            append(bytes, half.bits);
        else
            append(bytes, to_f16(v, what));
    }
    return bytes;
}

}  // namespace convoy
