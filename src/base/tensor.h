// Tensors are views: a pointer, an NHWC shape and a type. Arenas own the memory; only backends know
// whether it is on the host or on a device.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace convoy {

enum class DType : uint8_t { f32, f16, bf16, u8, i32 };

constexpr size_t size_of(DType type) {
    switch (type) {
        case DType::f32:
        case DType::i32: return 4;
        case DType::f16:
        case DType::bf16: return 2;
        case DType::u8: return 1;
    }
    return 0;
}
constexpr const char* name_of(DType type) {
    constexpr const char* names[] = {"f32", "f16", "bf16", "u8", "i32"};
    return names[static_cast<int>(type)];
}

template <class T> constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::f32; }
template <> constexpr DType dtype_of<uint8_t>() { return DType::u8; }
template <> constexpr DType dtype_of<int32_t>() { return DType::i32; }

/// An NHWC shape; c varies fastest. Weights have such shapes too: convolution [out, kh, kw, in],
/// linear [out, 1, 1, in], vectors [1, 1, 1, c].
struct Shape {
    int n = 1, h = 1, w = 1, c = 1;
    constexpr size_t count() const { return size_t(n) * h * w * c; }
    constexpr size_t pixels() const { return size_t(n) * h * w; }
    constexpr bool operator==(const Shape&) const = default;
};

struct Tensor {
    void* data = nullptr;
    Shape shape{};
    DType dtype = DType::f32;
    int padding = 0;  ///< number of padding channels at the end of shape.c; their elements are zero

    int channels() const { return shape.c - padding; }
    size_t count() const { return shape.count(); }
    size_t bytes() const { return count() * size_of(dtype); }
    template <class T> T* as() const {
        require(dtype_of<T>() == dtype, "a tensor is read as another type than it has");
        return static_cast<T*>(data);
    }
};

}  // namespace convoy
