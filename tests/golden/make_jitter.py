#!/usr/bin/env python3
"""Writes jitter.h5 beside itself: what torchvision makes of images by changing their colours.

    python3 tests/golden/make_jitter.py

It needs torch, torchvision, h5py and numpy.

/image_N        pixels from 0 to 255: [height * width, 3], N from 0 to 2
/factors_N      of brightness, contrast, saturation, hue: [cases, 4]; neutral ones (1, 1, 1, 0) are
                those of changes that are off
/orders_N       which of these comes first (0 to 3), second, ...: [cases, 4]
/changed_N      image N, from 0 to 255, after adjust_brightness, adjust_contrast, adjust_saturation
                and adjust_hue in float64: [cases, height * width, 3]
/errors_N       the largest distance of what ColorJitter.transform, given the same draws, makes in
                float32: [cases]
Each has the attribute f32_error, which is 0 but of /changed_N, where it is the worst of /errors_N.
adjust_hue itself always computes in float32; the truth takes its two conversions in float64.
"""
from itertools import permutations
from pathlib import Path

import h5py
import numpy as np
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import _color

NEUTRAL = (1.0, 1.0, 1.0, 0.0)
ADJUST = (_color.adjust_brightness, _color.adjust_contrast, _color.adjust_saturation)
# One change alone: which, and its factors.
SINGLE = [
    (0, (0.0, 0.6, 1.4, 2.0)),
    (1, (0.0, 0.5, 1.7, 3.0)),
    (2, (0.0, 0.3, 1.8, 5.0)),
    (3, (-0.5, -0.31, -0.1, 0.02, 1 / 6, 0.25, 0.5)),
]


def images():
    """Noise; a dark picture; greys, black, white, the six pure hues, and colours with equal channels."""
    rng = np.random.default_rng(1)
    levels = (0, 1, 127, 128, 255)
    special = [(v, v, v) for v in levels] + [(r, g, b) for r in (0, 255) for g in (0, 255) for b in (0, 255)]
    special += [(127, 127, 128), (128, 127, 127), (9, 200, 200), (200, 9, 200), (200, 200, 9), (1, 0, 0), (0, 0, 1)]
    return [
        rng.integers(256, size=(7, 9, 3)),
        rng.integers(30, size=(4, 5, 3)),
        np.array(special).reshape(4, 5, 3),
    ]


def turn_hue(image, turn):
    """adjust_hue without its conversion to float32."""
    h, s, v = _color._rgb_to_hsv(image).unbind(dim=-3)
    return _color._hsv_to_rgb(torch.stack(((h + turn).remainder(1.0), s, v), dim=-3))


def truth(image, factors, order):
    for which in order:
        if factors[which] == NEUTRAL[which]:
            continue
        image = turn_hue(image, factors[3]) if which == 3 else ADJUST[which](image, factors[which])
    return image


def single(image, factors, order):
    names = ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor")
    params = {name: None if f == neutral else f for name, f, neutral in zip(names, factors, NEUTRAL)}
    return v2.ColorJitter().transform(image, params | {"fn_idx": torch.tensor(order)})


def cases():
    for which, factors in SINGLE:
        for factor in factors:
            all_factors = list(NEUTRAL)
            all_factors[which] = factor
            for image in (1, 2):
                yield image, all_factors, (0, 1, 2, 3)
    rng = np.random.default_rng(2)
    for n, order in enumerate(permutations(range(4))):
        factors = [rng.uniform(0.2, 1.8), rng.uniform(0.2, 1.8), rng.uniform(0, 2), rng.uniform(-0.5, 0.5)]
        yield (0, 2)[n % 2], factors, order


def changed(picture, factors, order):
    """An image from 0 to 255 after that, and float32's largest distance."""
    pixels = torch.from_numpy(picture).permute(2, 0, 1).double() / 255
    wanted, got = (
        make(of, factors, order).permute(1, 2, 0).double().numpy().reshape(-1, 3) * 255
        for make, of in ((truth, pixels), (single, pixels.float()))
    )
    return wanted, np.abs(got - wanted).max()


def main():
    pictures = images()
    with h5py.File(Path(__file__).parent / "jitter.h5", "w", libver=("v110", "v110")) as file:
        for n, picture in enumerate(pictures):
            # Factors that float32 has, as Convoy's are.
            own = [([float(np.float32(f)) for f in factors], order) for of, factors, order in cases() if of == n]
            results = [changed(picture, *case) for case in own]
            sets = {
                "image": picture.reshape(-1, 3),
                "factors": [factors for factors, _ in own],
                "orders": [order for _, order in own],
                "changed": [wanted for wanted, _ in results],
                "errors": [error for _, error in results],
            }
            for name, values in sets.items():
                data = file.create_dataset(f"{name}_{n}", data=np.asarray(values, dtype=np.float64))
                data.attrs["f32_error"] = max(sets["errors"]) if name == "changed" else 0.0


if __name__ == "__main__":
    main()
