#!/usr/bin/env python3
"""Error of 3x3 convolutions whose products are taken in bf16, directly and by Winograd, against exact sums.

Needs numpy: .deps/peers/bin/python tests/peers/winograd_error.py. Images are in bf16, weights in f32, 64
channels; the error is the root of the mean square, as a part of the output's. bf16 rounds the weights of a
direct sum; of Winograd's F(m x m, 3x3) it rounds the transformed images and weights, and sums are exact.
"""

from fractions import Fraction

import numpy as np

POINTS = {
    "F(2x2), points 0, +-1": (2, [0, 1, -1]),
    "F(3x3), points 0, +-5/8, 3/2": (3, [0, Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2)]),
    "F(4x4), points 0, +-5/8, +-3/2": (4, [0, Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)]),
    "F(4x4), points 0, +-1, +-2": (4, [0, 1, -1, 2, -2]),
}


def bf16(x):
    """The nearest values of bf16."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def times_root(polynomial, root):
    """(x - root) times a polynomial, whose coefficients begin with the constant."""
    low = [0] + polynomial
    return [a - root * b for a, b in zip(low, polynomial + [0])]


def transforms(points, m):
    """Toom and Cook's matrices of outputs [m, n], weights [n, 3] and images [n, n] for n = m + 2 points, the last at infinity."""
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


def errors(m, points, rng):
    """Of a direct sum and of Winograd's."""
    tiles, channels, n = 400, 64, m + 2
    x = bf16(np.maximum(rng.standard_normal((tiles, channels, n, n)), 0))
    w = rng.standard_normal((channels, 3, 3)) * np.sqrt(2 / (9 * channels))

    def direct(weights):
        return sum(
            np.einsum("tcab,c->tab", x[:, :, i : i + m, j : j + m], weights[:, i, j])
            for i in range(3)
            for j in range(3)
        )

    a, g, b = transforms(points, m)
    images = np.einsum("ia,tcab,jb->tcij", b, x, b)
    weights = np.einsum("ia,cab,jb->cij", g, w, g)

    def winograd(rounded):
        return np.einsum("ki,tij,lj->tkl", a, np.einsum("tcij,cij->tij", rounded(images), rounded(weights)), a)

    exact = direct(w)
    assert np.abs(winograd(lambda v: v) - exact).max() < 1e-9 * np.abs(exact).max() * channels

    def error(y):
        return np.sqrt(((y - exact) ** 2).mean() / (exact**2).mean())

    return error(direct(bf16(w))), error(winograd(bf16))


def main():
    rng = np.random.default_rng(0)
    for name, (m, points) in POINTS.items():
        seen = np.median([errors(m, points, rng) for _ in range(9)], axis=0)
        print(f"{name:34} direct {seen[0]:.1e}  Winograd {seen[1]:.1e}  {seen[1] / seen[0]:.1f} times")


if __name__ == "__main__":
    main()
