// Names and types that distinguish shards of images, of float32 vectors, and of images that differ
// in size.
#pragma once
#include <hdf5.h>

#include "base/tensor.h"

namespace convoy {

/// Returns the root attribute `format` for the type of /images.
constexpr const char* format_of(DType type) { return type == DType::f32 ? "convoy-vectors" : "convoy-images"; }
constexpr const char* ragged_format = "convoy-ragged";
/// Returns the name of the element type of /images or /labels, for messages.
constexpr const char* stored_name(DType type) {
    if (type == DType::i32) return "int32";
    return type == DType::f32 ? "float32" : "uint8";
}
/// Return the element type of /images in the file and in memory.
inline hid_t stored_type(DType type) { return type == DType::f32 ? H5T_IEEE_F32LE : H5T_STD_U8LE; }
inline hid_t native_type(DType type) { return type == DType::f32 ? H5T_NATIVE_FLOAT : H5T_NATIVE_UINT8; }

}  // namespace convoy
