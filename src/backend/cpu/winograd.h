// Convolutions with 3x3 kernels and stride 1 by Winograd's minimal filtering, for AVX-512 (Lavin
// and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
#pragma once
#include <cstddef>

#include "base/bf16.h"

namespace convoy::cpu {

/// A convolution of x [n, h, w, in] into y [n, h, w, out], plain NHWC, padded by one pixel, with
/// weights [out, 3, 3, in]. F(4x4) computes 4x4 outputs from 6x6 inputs: 36 multiplications where a
/// direct convolution takes 144, at twice its error. F(7x7) and F(8x8) take 81 and 100 instead of
/// 441 and 576, with more error (tests/RESULTS.md). Sums are in float. They depend on the number of
/// threads only in weight gradients of many tiles.
struct Winograd {
    int n, h, w, in, out;
    int threads;
    int tile = 4;  ///< side of an output tile: 4, 7 or 8

    /// Returns true if both sides have at least 16 channels and images are at least 3x3. For
    /// smaller images nothing is saved.
    static bool suits(int h, int w, int in, int out);
    /// Returns the multiplications for an image, as a fraction of a direct convolution's.
    static double multiplications(int h, int w, int tile = 4) {
        const auto tiles = [&](int size) { return (size + tile - 1) / tile; };
        return double(tiles(h) * tiles(w)) * (tile + 2) * (tile + 2) / (9.0 * h * w);
    }
    /// Returns 7 or 8, whichever takes fewer multiplications.
    static int large_tile(int h, int w) { return multiplications(h, w, 7) <= multiplications(h, w, 8) ? 7 : 8; }
    /// Returns the bytes of workspace that any of the functions below needs, aligned to 64 bytes.
    size_t workspace_bytes() const;

    /// Computes y = x * weight (a convolution).
    template <class E> void forward(const E* x, const float* weight, E* y, void* workspace) const;
    /// Computes dx = dy * weight, mirrored and transposed; adds to dx if `add`.
    template <class E> void data_gradient(const E* dy, const float* weight, E* dx, bool add, void* workspace) const;
    /// Computes dweight [out, 3, 3, in], the gradient of sum(y dy).
    template <class E> void weight_gradient(const E* x, const E* dy, float* dweight, void* workspace) const;
};

}  // namespace convoy::cpu
