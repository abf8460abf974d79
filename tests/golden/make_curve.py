#!/usr/bin/env python3
"""Trains a recipe's first steps in PyTorch, on the samples, in the order, with the crops, flips and
initial weights that Convoy's are, and writes what it saw: the golden curve that `make acceptance`
compares Convoy's metrics with.

    build/convoy train --config RECIPE --data DATA --lr 0 --max-steps 1 --no-eval --output INIT
    python3 tests/golden/make_curve.py pyramidnet DATA INIT/model.h5 STEPS OUT.csv [--float64] [--channels-last]

The first command leaves the initial weights: a step at rate 0 changes none. Order and augmentation
are written here again from their definitions (src/plan/split.h, src/ops/augment.h): Philox4x32-10
with the seed as key and the counter (sample, 0, epoch, purpose). OUT.csv has a line a step: its
number, the loss of its batch and how many of it were right. It grows line by line.
"""
import csv
import glob
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F

from models import MODELS, Net

SEED, BATCH, PAD = 1, 64, 4
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
RATE, MOMENTUM, DECAY = 0.1, 0.9, 1e-4
PERMUTATION, AUGMENT = 2, 3  # purposes


def philox(key, c0, c1, c2, c3):
    """The four words for an array of counters c0, as uint64 [n, 4]."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0 = np.asarray(c0, dtype=np.uint64)
    c1, c2, c3 = (np.full_like(c0, c) for c in (c1, c2, c3))
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def below(words, n):
    """Integers from 0 to n - 1."""
    return (words * np.asarray(n, dtype=np.uint64)) >> np.uint64(32)


def permutation(n, epoch):
    """Fisher and Yates, from the last place down."""
    places = np.arange(1, n, dtype=np.uint64)
    partners = below(philox(SEED, places, 0, epoch, PERMUTATION)[:, 0], places + np.uint64(1))
    order = np.arange(n)
    for place in range(n - 1, 0, -1):
        other = int(partners[place - 1])
        order[place], order[other] = order[other], order[place]
    return order


def batch_of(images, samples, epoch):
    """[n, channels, height, width], cropped from black borders, mirrored and normalised."""
    words = philox(SEED, samples, 0, epoch, AUGMENT)
    down, right = (below(words[:, k], 2 * PAD + 1).astype(int) for k in (0, 1))
    mirrored = words[:, 2] >> np.uint64(31)
    size = images.shape[1]
    bordered = np.pad(images[samples], ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    crops = [image[y : y + size, x : x + size] for image, y, x in zip(bordered, down, right)]
    crops = np.stack([crop[:, ::-1] if m else crop for crop, m in zip(crops, mirrored)])
    return ((crops / 255.0 - MEAN) / DEVIATION).transpose(0, 3, 1, 2)


def read_split(folder):
    images, labels = [], []
    for path in sorted(glob.glob(f"{folder}/train-*.h5")):
        with h5py.File(path, "r") as shard:
            images.append(shard["images"][:])
            labels.append(shard["labels"][:])
    return np.concatenate(images), np.concatenate(labels).astype(np.int64)


class InitialisedNet(Net):
    """With the weights of a model file in place of the streams of make_golden.py."""

    def __init__(self, path, dtype, layout):
        super().__init__(dtype, layout)
        self.file = h5py.File(path, "r")["tensors"]

    def parameter(self, name, *shape, frozen=False):
        if name not in self.parameters:
            values = torch.from_numpy(self.file[name][:]).reshape(shape).to(self.dtype)
            self.parameters[name] = values.requires_grad_()
        return self.parameters[name]


def main(model, folder, initial, steps, out, *options):
    dtype = torch.float64 if "--float64" in options else torch.float32
    layout = torch.channels_last if "--channels-last" in options else torch.contiguous_format
    images, labels = read_split(folder)
    net, optimizer = InitialisedNet(initial, dtype, layout), None
    with open(out, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["step", "loss", "correct"])
        order = permutation(len(images), 0)
        for step in range(int(steps)):
            samples = order[step * BATCH : (step + 1) * BATCH]
            target = torch.from_numpy(labels[samples])
            logits = MODELS[model](net, torch.from_numpy(batch_of(images, samples, 0)).to(dtype).contiguous(memory_format=layout), None_case)
            loss = F.cross_entropy(logits, target)
            optimizer = optimizer or torch.optim.SGD(
                net.parameters.values(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows.writerow([step + 1, f"{loss.item():.7g}", int((logits.argmax(1) == target).sum())])
            file.flush()


class None_case:
    classes = 10


if __name__ == "__main__":
    main(*sys.argv[1:])
