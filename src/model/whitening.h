// Filters that whiten the patches of training images: the eigenvectors of their second moments over
// the root of the eigenvalues. In double throughout: on real images the smallest eigenvalue is
// 10^-4 of the largest, and float makes other filters of it.
#pragma once
#include <cstdint>
#include <vector>

namespace convoy {

/// Eigenvalues of a symmetric matrix, falling, and their unit vectors. A vector's largest component
/// is positive.
struct Eigen {
    std::vector<double> values;   ///< [n]
    std::vector<double> vectors;  ///< [n][n], row i belongs to values[i]
};
/// `matrix` [n][n], of which both triangles are read; cyclic Jacobi rotations.
Eigen symmetric_eigen(std::vector<double> matrix, int n);

/// Images of one shape, as bytes.
struct PatchSource {
    const uint8_t* images;  ///< [count, h, w, c]
    int64_t count;
    int h, w, c;
    std::vector<float> mean, stddev;  ///< by channel, units of pixel / 255
};
/// Weight [2 n, kernel, kernel, c] of a convolution, n = kernel * kernel * c: filter i is vector i
/// / sqrt(value i + epsilon), filter n + i its negative. The moments are those of all patches of
/// normalised pixels, about zero.
std::vector<float> whitening_filters(const PatchSource&, int kernel, double epsilon = 5e-4);

}  // namespace convoy
