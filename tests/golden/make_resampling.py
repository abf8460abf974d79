#!/usr/bin/env python3
"""Writes resampling.h5 beside itself: what torchvision makes of images by resizing with antialias.

    python3 tests/golden/make_resampling.py

It needs torch, torchvision, h5py and numpy. Images are not stored. Both sides make them: byte i of
an image [height, width, 3] is (i * i * 40503 + i * 30011 + 12345) // 64 % 256, in 64-bit integers.

/windows/N      resized_crop of a window, antialias=True, on float64 pixels: [rows, columns, 3];
                attributes height, width (of the image), window = top, left, height, width
/centres/N      Resize(short_side, antialias=True), then CenterCrop(side), likewise; attributes
                height, width, short_side, side
Each has the attribute f32_error: the largest distance of the same in float32.
"""
from pathlib import Path

import h5py
import numpy as np
import torch
from torchvision.transforms.v2 import functional as F

# height, width, window (top, left, height, width), rows, columns
WINDOWS = [
    (37, 53, (0, 0, 37, 53), 16, 16),
    (37, 53, (5, 9, 20, 31), 16, 16),
    (37, 53, (5, 9, 20, 31), 24, 13),
    (37, 53, (36, 52, 1, 1), 8, 8),
    (37, 53, (0, 3, 2, 50), 9, 9),
    (20, 20, (2, 2, 16, 16), 16, 16),
    (300, 211, (17, 4, 280, 200), 12, 12),
    (33, 40, (3, 4, 11, 13), 32, 30),
]
# height, width, short side, side
CENTRES = [(37, 53, 20, 16), (53, 37, 20, 16), (37, 53, 37, 32), (37, 53, 16, 16), (31, 30, 45, 40), (41, 100, 19, 16)]


def image(height, width):
    i = np.arange(height * width * 3, dtype=np.int64)
    pixels = (i * i * 40503 + i * 30011 + 12345) // 64 % 256
    return torch.from_numpy(pixels.reshape(height, width, 3)).permute(2, 0, 1)


def write(group, number, make, **attributes):
    truth, single = (make(dtype).permute(1, 2, 0).double().numpy() for dtype in (torch.float64, torch.float32))
    data = group.create_dataset(str(number), data=truth, compression=9, shuffle=True)
    for name, value in (attributes | {"f32_error": float(np.abs(single - truth).max())}).items():
        data.attrs[name] = value


def main():
    with h5py.File(Path(__file__).parent / "resampling.h5", "w", libver=("v110", "v110")) as file:
        for n, (height, width, window, rows, columns) in enumerate(WINDOWS):
            write(
                file.require_group("windows"),
                n,
                lambda dtype: F.resized_crop(image(height, width).to(dtype), *window, [rows, columns], antialias=True),
                height=height,
                width=width,
                window=np.array(window),
            )
        for n, (height, width, short_side, side) in enumerate(CENTRES):
            write(
                file.require_group("centres"),
                n,
                lambda dtype: F.center_crop(
                    F.resize(image(height, width).to(dtype), [short_side], antialias=True), [side]
                ),
                height=height,
                width=width,
                short_side=short_side,
                side=side,
            )


if __name__ == "__main__":
    main()
