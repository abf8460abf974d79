// Filters that whiten the patches of training images: the eigenvectors of their second moments,
// divided by the square roots of the eigenvalues. Computes in double, because on real images the
// smallest eigenvalue is 10^-4 of the largest, and float gives different filters.
#pragma once
#include <cstdint>
#include <vector>

namespace convoy {

/// Eigenvalues of a symmetric matrix in falling order, and their unit eigenvectors. In each vector,
/// the component with the largest magnitude is positive.
struct Eigen {
    std::vector<double> values;   ///< [n]
    std::vector<double> vectors;  ///< [n][n], row i belongs to values[i]
};
/// Diagonalizes `matrix` [n][n] by cyclic Jacobi rotations. Both triangles must be filled in.
Eigen symmetric_eigen(std::vector<double> matrix, int n);

/// Images of one shape, as bytes.
struct PatchSource {
    const uint8_t* images;  ///< [count, h, w, c]
    int64_t count;
    int h, w, c;
    std::vector<float> mean, stddev;  ///< by channel, units of pixel / 255
};
/// Returns the weight [2 n, kernel, kernel, c] of a convolution, n = kernel * kernel * c. Filter i
/// is vector i / sqrt(value i + epsilon); filter n + i is its negative. The vectors and values are
/// those of the second moments about zero, over all patches of normalised pixels.
std::vector<float> whitening_filters(const PatchSource&, int kernel, double epsilon = 5e-4);

}  // namespace convoy
