// bfloat16: the upper half of a float32. Conversion rounds to nearest, ties to even; a NaN stays a
// NaN.
#pragma once
#include <bit>
#include <cstdint>

#include "base/tensor.h"

namespace convoy {

struct bf16 {
    uint16_t bits;
};

inline float to_float(float v) { return v; }
inline float to_float(bf16 v) { return std::bit_cast<float>(uint32_t(v.bits) << 16); }

inline void assign(float& to, float v) { to = v; }
inline void assign(bf16& to, float v) {
    const uint32_t u = std::bit_cast<uint32_t>(v);
    const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;
    to.bits = uint16_t((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

template <> constexpr DType dtype_of<bf16>() { return DType::bf16; }

}  // namespace convoy
