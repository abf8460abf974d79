// Convolutions of 3x3 kernels and stride 1 by Winograd's minimal filtering (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016): output tiles of 4x4 from input tiles of
// 6x6, 36 products where the direct sum takes 144. The points are 0, +-5/8, +-3/2 and infinity,
// whose error in float is about twice that of a direct sum (that of 0, +-1, +-2 is four times it).
// Tiles of 7x7 take 81 products for 441, and of 8x8 100 for 576: where they fit an image they save
// up to 44 % of those of 4x4 tiles, with errors of 1e-5 and 3e-5, where to round weights to bf16
// costs 1.6e-3 (tests/peers/winograd_error.py).
// Needs AVX-512. Sums are taken in float; their order does not depend on the number of threads but
// for weight gradients of many tiles.
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
