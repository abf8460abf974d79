// Convolutions of 3x3 kernels and stride 1 by Winograd's minimal filtering (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016): output tiles of 4x4 from input tiles of
// 6x6, 36 products where the direct sum takes 144. The points are 0, +-5/8, +-3/2 and infinity,
// whose error in float is about twice that of a direct sum (that of 0, +-1, +-2 is four times it).
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

    /// Whether the channels fill vectors, and images are larger than 2x2, where nothing is saved.
    static bool suits(int h, int w, int in, int out);
    /// Of an image, as a part of the products of a direct sum.
    static double products(int h, int w) {
        const int tiles = ((h + 3) / 4) * ((w + 3) / 4);
        return 36.0 * tiles / (9.0 * h * w);
    }
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
