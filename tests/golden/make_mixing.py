#!/usr/bin/env python3
"""Writes mixing.h5 beside itself: torchvision's boxes of CutMix, and PyTorch's loss of two labels.

    python3 tests/golden/make_mixing.py

It needs torch, torchvision, h5py and numpy.

/boxes          height, width, the drawn row and column, top, left, bottom, right: [boxes, 8]
/box_shares     the drawn share, and the one that CutMix sets from the box: [boxes, 2]
/logits, /labels, /partners, /shares    rows of a batch: [rows, classes], then [rows]
/loss_N, /gradient_N    N = 0: without, 1: with label smoothing of 0.1; the sum over the rows of the
                cross-entropy with the mixed one-hot labels, and its gradient: [1], [rows, classes]
Each has the attribute f32_error, which is 0: these are inputs, or were computed in float64.
"""
import random
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import torch
from torchvision.transforms import v2

SIZES = [(32, 32), (224, 224), (7, 5), (1, 1), (28, 31), (160, 9)]
ROWS, CLASSES = 24, 10


def box(height, width, share, row, column):
    """What CutMix makes of these draws."""
    cut = v2.CutMix(num_classes=2)
    cut._dist = mock.Mock(sample=lambda _: torch.tensor(share, dtype=torch.float64))
    draws = iter([torch.tensor([column]), torch.tensor([row])])  # the column first
    with mock.patch("torch.randint", lambda *_, **__: next(draws)):
        params = cut.make_params([torch.zeros(1, 3, height, width)])
    left, top, right, bottom = params["box"]
    return (height, width, row, column, top, left, bottom, right), (share, params["lam_adjusted"])


def losses(logits, labels, partners, shares, smoothing):
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    hot = [torch.nn.functional.one_hot(torch.tensor(of), CLASSES).double() for of in (labels, partners)]
    share = torch.tensor(shares, dtype=torch.float64)[:, None]
    target = hot[1] * (1 - share) + hot[0] * share  # as MixUp mixes labels
    loss = torch.nn.functional.cross_entropy(x, target, reduction="sum", label_smoothing=smoothing)
    loss.backward()
    return [loss.item()], x.grad.numpy()


def main():
    random.seed(1)
    rng = np.random.default_rng(1)
    boxes = [
        box(height, width, share, random.randrange(height), random.randrange(width))
        for height, width in SIZES
        for share in (0.0, 1.0, 0.1, 0.5, 0.77, random.random(), random.random())
    ]
    logits = rng.normal(scale=2, size=(ROWS, CLASSES)).astype(np.float32)
    labels, partners = rng.integers(CLASSES, size=(2, ROWS))
    shares = rng.uniform(size=ROWS).astype(np.float32)
    shares[:3] = 0, 1, 0.5
    sets = {
        "boxes": [b for b, _ in boxes],
        "box_shares": [s for _, s in boxes],
        "logits": logits,
        "labels": labels,
        "partners": partners,
        "shares": shares,
    }
    for n, smoothing in enumerate((0.0, 0.1)):
        sets[f"loss_{n}"], sets[f"gradient_{n}"] = losses(logits, labels, partners, shares, smoothing)
    with h5py.File(Path(__file__).parent / "mixing.h5", "w", libver=("v110", "v110")) as file:
        for name, values in sets.items():
            data = file.create_dataset(name, data=np.asarray(values, dtype=np.float64))
            data.attrs["f32_error"] = 0.0


if __name__ == "__main__":
    main()
