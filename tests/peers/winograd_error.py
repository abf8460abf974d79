#!/usr/bin/env python3
"""Error of 3x3 convolutions with products in bf16 and f32, directly and by Winograd, against exact sums.

Needs numpy: .deps/peers/bin/python tests/peers/winograd_error.py. Images are in bf16, weights in f32, 64
channels; the error is the root of the mean square, as a part of the output's. bf16 rounds the weights of a
direct sum; of Winograd's F(m x m, 3x3) it rounds the transformed images and weights, and sums are exact.
The f32 columns round every step of both.
"""

from fractions import Fraction

import numpy as np


def both_signs(*points):
    return [p * sign for p in points for sign in (1, -1)]


POINTS = {
    "F(2x2), points 0, +-1": (2, [0, 1, -1]),
    "F(3x3), points 0, +-5/8, 3/2": (3, [0, Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2)]),
    "F(4x4), points 0, +-5/8, +-3/2": (4, [0, Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)]),
    "F(4x4), points 0, +-1, +-2": (4, [0, 1, -1, 2, -2]),
    "F(7x7)": (7, both_signs(Fraction(5, 16), Fraction(11, 16), Fraction(9, 8), Fraction(7, 4))),
    "F(8x8)": (8, [0] + both_signs(Fraction(3, 8), Fraction(3, 4), Fraction(5, 4), Fraction(15, 8))),
}


def bf16(x):
    """Returns the nearest values of bf16."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def unrounded(x):
    return x


def times_root(polynomial, root):
    """Returns (x - root) times a polynomial, whose coefficients begin with the constant."""
    low = [0] + polynomial
    return [a - root * b for a, b in zip(low, polynomial + [0])]


def transforms(points, m):
    """Returns Toom and Cook's matrices of outputs [m, n], weights [n, 3] and images [n, n] for n =
    m + 2 points, the last at infinity."""
    n = m + 2
    a, g, b = np.zeros((m, n)), np.zeros((n, 3)), np.zeros((n, n))
    points = [Fraction(p) for p in points]
    for i, p in enumerate(points):
        others = points[:i] + points[i + 1 :]
        scale = np.prod([p - q for q in others])
        a[:, i] = [float(p**k) for k in range(m)]
        g[i] = [float(p**k / scale) for k in range(3)]
        row = [Fraction(1)]
        for q in others:
            row = times_root(row, q)
        b[i, : n - 1] = [float(c) for c in row]
    row = [Fraction(1)]
    for q in points:
        row = times_root(row, q)
    b[n - 1] = [float(c) for c in row]
    a[m - 1, n - 1] = g[n - 1, 2] = 1
    return a, g, b


def both_ways(matrix, tiles):
    """Returns matrix times each tile times matrix transposed, in their type."""
    half = np.einsum("ia,...ab->...ib", matrix, tiles)
    return np.einsum("...ib,jb->...ij", half, matrix)


def errors(m, points, rng):
    """Returns the errors in bf16 and then in f32: of a direct sum, and of Winograd's algorithm."""
    tiles, channels, n = 400, 64, m + 2
    x = bf16(np.maximum(rng.standard_normal((tiles, channels, n, n)), 0))
    w = rng.standard_normal((channels, 3, 3)) * np.sqrt(2 / (9 * channels))

    def direct(weights, dtype=np.float64):
        """Sums over channels one after the other, rounded like f32."""
        y = np.zeros((tiles, m, m), dtype)
        for channel in range(channels):
            for i in range(3):
                for j in range(3):
                    y += x[:, channel, i : i + m, j : j + m].astype(dtype) * dtype(weights[channel, i, j])
        return y

    matrices = transforms(points, m)

    def winograd(rounded, dtype=np.float64):
        a, g, b = (matrix.astype(dtype) for matrix in matrices)
        images = rounded(both_ways(b, x.astype(dtype)))
        weights = rounded(both_ways(g, w.astype(dtype)))
        products = np.zeros((tiles, n, n), dtype)
        for channel in range(channels):
            products += images[:, channel] * weights[channel]
        return both_ways(a, products)

    exact = direct(w)
    assert np.abs(winograd(unrounded) - exact).max() < 1e-9 * np.abs(exact).max() * channels

    def error(y):
        return np.sqrt(((y - exact) ** 2).mean() / (exact**2).mean())

    return (
        error(direct(bf16(w))),
        error(winograd(bf16)),
        error(direct(w, np.float32)),
        error(winograd(unrounded, np.float32)),
    )


def main():
    rng = np.random.default_rng(0)
    print(f"{'':34} bf16: direct Winograd  f32: direct Winograd")
    for name, (m, points) in POINTS.items():
        seen = np.median([errors(m, points, rng) for _ in range(9)], axis=0)
        print(f"{name:34}      {seen[0]:.1e}  {seen[1]:.1e}      {seen[2]:.1e}  {seen[3]:.1e}")


if __name__ == "__main__":
    main()
