// A convolution as one GEMM: patches [pixels of y][kernel x kernel x in] times weights [out][kernel
// x kernel x in] transposed gives y.
#pragma once
#include <cstdint>

#include "base/bf16.h"

namespace convoy::cpu {

/// The patches of x [n, h, w, c], plain NHWC, that the pixels of y [n, h_out, w_out, out] see.
struct Patches {
    int n, h, w, c;
    int kernel, stride, pad;
    int h_out, w_out;
    int threads;

    int rows() const { return n * h_out * w_out; }
    int columns() const { return kernel * kernel * c; }
    /// Returns true if x itself is the matrix of patches.
    bool are_pixels() const { return kernel == 1 && stride == 1 && pad == 0; }

    /// Writes patches [rows][columns] from x, with zeros beyond its edges.
    template <class E> void gather(const E* x, float* patches) const;
    /// Writes dx = (or +=, if `add`): each pixel's sum of gradients over all patches that contain
    /// it.
    template <class E> void scatter(const float* patches, E* dx, bool add) const;
};

}  // namespace convoy::cpu
