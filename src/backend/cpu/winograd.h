// Convolutions of 3x3 kernels and stride 1 by Winograd's minimal filtering (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016), for AVX-512. F(4x4): output tiles of 4x4
// from input tiles of 6x6, 36 products where the direct sum takes 144, and twice its error. F(7x7)
// and F(8x8) take 81 and 100 for 441 and 576, with more error (tests/RESULTS.md has them). Sums are
// in float; only those of weight gradients of many tiles depend on the number of threads.
#pragma once
#include <cstddef>

#include "base/bf16.h"

namespace convoy::cpu {

/// x [n, h, w, in] and y [n, h, w, out], plain NHWC, padded by one pixel; weights [out, 3, 3, in].
struct Winograd {
    int n, h, w, in, out;
    int threads;
    int tile = 4;  ///< side of an output tile: 4, 7 or 8

    /// Whether the channels fill vectors, and images are larger than 2x2, where nothing is saved.
    static bool suits(int h, int w, int in, int out);
    /// Of an image, as a part of the products of a direct sum.
    static double products(int h, int w, int tile = 4) {
        const auto tiles = [&](int size) { return (size + tile - 1) / tile; };
        return double(tiles(h) * tiles(w)) * (tile + 2) * (tile + 2) / (9.0 * h * w);
    }
    /// 7 or 8, which takes fewer products.
    static int large_tile(int h, int w) { return products(h, w, 7) <= products(h, w, 8) ? 7 : 8; }
    /// Of the workspace that each of the three takes; aligned to 64.
    size_t workspace_bytes() const;

    /// y = x * weight.
    template <class E> void forward(const E* x, const float* weight, E* y, void* workspace) const;
    /// dx = dy * weight, mirrored and transposed; added to dx if `add`.
    template <class E> void data_gradient(const E* dy, const float* weight, E* dx, bool add, void* workspace) const;
    /// dweight [out, 3, 3, in] = the gradient of sum(y dy).
    template <class E> void weight_gradient(const E* x, const E* dy, float* dweight, void* workspace) const;
};

}  // namespace convoy::cpu
