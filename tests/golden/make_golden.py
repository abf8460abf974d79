#!/usr/bin/env python3
"""Writes the golden files <case>.h5 beside itself: what PyTorch computes for Convoy's models.

    python3 tests/golden/make_golden.py [--bf16|--f16] [case ...]

It needs torch, h5py and numpy, and runs on the CPU; no case means all. With --bf16 or --f16 it
writes nothing, but prints how far that type (autocast) strays from float64, as golden_test.cpp's
bounds want it.

Every case is computed in float64, which the files hold as the truth, and in float32 with several of
PyTorch's kernels. How far float32 strays from float64 is stored with every number: it is the
yardstick for Convoy's own rounding. One float32 run would be a poor one. Whether rounding takes a
ReLU or a maximum the other way is chance, and once it does gradients move by a thousandth or a
hundredth, not a millionth. So the yardstick is the worst of eight runs: two memory layouts, with
and without oneDNN, the batch in either order.

Input, labels and parameters are not stored. Both sides make them from Philox4x32-10: stream(name,
n) has the FNV-1a hash of the name as its key, block b of the cipher gives elements 4b to 4b+3, and
a 32-bit word becomes float(int32(word)) / 2^31. Parameters are streams called by their own names,
filled in Convoy's index order (convolutions [out, kh, kw, in], linear [out, in], inputs flattened
from NHWC): convolution v * sqrt(3 / (kh*kw*in)), linear v * 1/sqrt(in), biases 0.1 v, batch-norm
scales 1 + 0.2 v. The square roots are taken in double and rounded to float; after that each product
and sum is rounded to float (no fused multiply-add). The input is the stream "input" in NHWC order,
label i is (7i + 3) % classes.

A file, with batch statistics throughout and all numbers float64:
  /              attributes: what was trained and how, by the names of Case below
  /logits /loss  of the first forward pass; loss is the mean cross-entropy
  /running/X     running mean or variance X after that pass
  /gradients/X   of parameter X, in Convoy's order, unless it is frozen. Attribute whole = 1: all
                 of it; whole = 0: its L2 norm, its dot products with stream("X#k", count) for
                 k = 0..3, and 64 samples at indices floor(j * count / 64). f32_relative is
                 |g32 - g64| / |g64| and norm is |g64|, L2 over the full tensor. Both only tell
                 noise where the gradient is zero in theory (norm < 1e-10): in PyramidNets, biases
                 that the next batch norms undo
  /losses        before each of 10 optimizer steps on the same batch; /losses_f32 are those of the
                 default float32 kernels
  /adam_losses   the same with Adam, in one case
The attribute f32_error of each is the largest |float32 - float64| in it. Data sets of 64 values and
more are compressed and for that rounded to 29 significant bits, 32 times finer than float32: with
sign and exponent they fill 5 of 8 bytes.
"""
import itertools
import math
import os
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import h5py
import numpy as np
import torch
import torch.nn.functional as F

from models import MODELS, Net, stream

STEPS = 10
WHOLE_UP_TO = 1024
SAMPLES = 64
ADAM_LEARNING_RATE = 1e-3


@dataclass
class Case:
    model: str
    batch: int
    height: int
    width: int
    channels: int
    classes: int
    parameters: int  # how many the model must have
    learning_rate: float
    stem: str = "auto"
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 1e-4
    label_smoothing: float = 0.0
    adam: bool = False


CASES = {
    "linear": Case("linear", 5, 1, 1, 10, 10, 110, 0.1),
    "mnist-linear": Case("mnist-linear", 7, 28, 28, 1, 10, 7_850, 0.002, adam=True),
    "airbench94": Case(
        "airbench94", 5, 32, 32, 3, 10, 1_972_792, 0.001, momentum=0.85, nesterov=True, label_smoothing=0.2
    ),
    "mnist-conv": Case("mnist-conv", 5, 28, 28, 1, 10, 21_840, 0.02),
    "resnet18-cifar": Case("resnet18", 4, 32, 32, 3, 10, 11_173_962, 2e-4, "cifar", nesterov=True, label_smoothing=0.1),
    "resnet18-imagenet": Case("resnet18", 3, 64, 64, 3, 37, 11_195_493, 1e-4, "imagenet"),
    "resnet50-cifar": Case("resnet50", 4, 32, 32, 3, 10, 23_520_842, 1e-6, "cifar"),
    "resnet50-imagenet": Case("resnet50", 3, 96, 96, 3, 1000, 25_557_032, 5e-7, "imagenet"),
    "pyramidnet": Case("pyramidnet", 4, 32, 32, 3, 10, 24_253_410, 0.001),
    "pyramidnet110": Case("pyramidnet110", 3, 32, 32, 3, 10, 28_485_477, 0.001),
}


def make_optimizer(case, parameters, adam):
    if adam:
        return torch.optim.Adam(parameters, lr=ADAM_LEARNING_RATE)
    return torch.optim.SGD(
        parameters,
        lr=case.learning_rate,
        momentum=case.momentum,
        nesterov=case.nesterov,
        weight_decay=case.weight_decay,
    )


def train(case, dtype, layout=torch.contiguous_format, onednn=True, reverse=False, adam=False, autocast=None):
    """Logits, gradients and running statistics of the first step, and the losses before every step."""
    torch.backends.mkldnn.enabled = onednn
    shape = (case.batch, case.height, case.width, case.channels)
    order = list(range(case.batch))[:: -1 if reverse else 1]
    images = torch.from_numpy(stream("input", math.prod(shape)).reshape(shape))[order].to(dtype)
    images = images.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    labels = torch.tensor([(7 * i + 3) % case.classes for i in order])
    net, optimizer, result, losses = Net(dtype, layout), None, None, []
    for _ in range(STEPS):
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            logits = MODELS[case.model](net, images, case).to(dtype)
        loss = F.cross_entropy(logits, labels, label_smoothing=case.label_smoothing)
        optimizer = optimizer or make_optimizer(case, net.parameters.values(), adam)
        optimizer.zero_grad()
        scale = 1024 if autocast == torch.float16 else 1
        (scale * loss).backward()
        if scale > 1:
            for p in net.parameters.values():
                p.grad /= scale
        losses.append(loss.item())
        if result is None:
            assert (
                sum(p.numel() for group in (net.parameters, net.frozen) for p in group.values()) == case.parameters
            ), case.model
            result = SimpleNamespace(
                logits=logits.detach()[order].double().numpy(),
                gradients={name: p.grad.flatten().double().numpy().copy() for name, p in net.parameters.items()},
                running={name: r.double().numpy().copy() for name, r in net.running.items()},
            )
        optimizer.step()
    result.losses = np.array(losses)
    return result


def train_all(case, adam=False):
    """The float64 result and the float32 results, default kernels first."""
    ways = itertools.product((torch.contiguous_format, torch.channels_last), (True, False), (False, True))
    return train(case, torch.float64, adam=adam), [train(case, torch.float32, *way, adam=adam) for way in ways]


def digest(name, gradient):
    """What is kept of a gradient: all of it if it is small, else norm, dot products and samples."""
    count = gradient.size
    if count <= WHOLE_UP_TO:
        return gradient
    dots = [gradient @ stream(f"{name}#{k}", count).astype(np.float64) for k in range(4)]
    samples = gradient[np.arange(SAMPLES) * count // SAMPLES]
    return np.concatenate([[np.linalg.norm(gradient)], dots, samples])


def write(group, name, truth, singles, **attributes):
    """A data set of `truth`, with its distance from the float32 results; compressed where that makes it smaller."""
    if truth.size >= 64:
        fraction, exponent = np.frexp(truth)
        values = np.ldexp(np.round(np.ldexp(fraction, 29)), exponent - 29)
        data = group.create_dataset(name, data=values, compression=9, shuffle=True, chunks=values.shape)
    else:
        data = group.create_dataset(name, data=truth)
    data.attrs["f32_error"] = max(np.max(np.abs(single - truth)) for single in singles)
    for key, value in attributes.items():
        data.attrs[key] = value


def generate(name, case, folder):
    truth, singles = train_all(case)
    relative = {}
    with h5py.File(os.path.join(folder, f"{name}.h5"), "w", libver=("v110", "v110")) as file:
        file.attrs["format"] = "convoy-golden"
        for key, value in vars(case).items():
            file.attrs[key] = int(value) if isinstance(value, bool) else value
        file.attrs["torch"] = str(torch.__version__)
        write(file, "logits", truth.logits, [s.logits for s in singles])
        write(file, "loss", truth.losses[0], [s.losses[0] for s in singles])
        write(file, "losses", truth.losses, [s.losses for s in singles])
        file["losses_f32"] = singles[0].losses
        if case.adam:
            adam, adam_singles = train_all(case, adam=True)
            write(file, "adam_losses", adam.losses, [s.losses for s in adam_singles], learning_rate=ADAM_LEARNING_RATE)
        for key, g in truth.gradients.items():
            size = np.linalg.norm(g)
            distance = max(np.linalg.norm(s.gradients[key] - g) for s in singles)
            write(
                file,
                f"gradients/{key}",
                digest(key, g),
                [digest(key, s.gradients[key]) for s in singles],
                whole=int(g.size <= WHOLE_UP_TO),
                f32_relative=distance / size,
                norm=size,
            )
            relative |= {key: distance / size} if size > 1e-10 else {}
        for key, r in truth.running.items():
            write(file, f"running/{key}", r, [s.running[key] for s in singles])
    errors = list(relative.values())
    print(
        f"{name}: losses",
        *np.round(truth.losses, 4),
        f"(float32 off by {max(np.max(np.abs(s.losses - truth.losses)) for s in singles):.1e});",
        f"gradients off by {np.median(errors):.1e} (median) to {np.max(errors):.1e} of their norm",
        flush=True,
    )


def print_low(name, case, low_type):
    """How far a low precision strays, in units of the largest value or of a gradient's norm (of
    weights, the worst); the worst of four runs."""
    truth = train(case, torch.float64)
    ways = itertools.product((torch.contiguous_format, torch.channels_last), (True,), (False, True))
    worst = {}
    for low in (train(case, torch.float32, *way, autocast=low_type) for way in ways):
        off = {
            "logits": np.max(np.abs(low.logits - truth.logits)) / np.max(np.abs(truth.logits)),
            "running": max(
                (np.max(np.abs(low.running[k] - r)) / np.max(np.abs(r)) for k, r in truth.running.items()), default=0
            ),
            "gradient": max(
                np.linalg.norm(low.gradients[k] - g) / np.linalg.norm(g)
                for k, g in truth.gradients.items()
                if k.endswith(".weight")
            ),
            "losses": np.max(np.abs(low.losses - truth.losses)) / np.max(truth.losses),
        }
        worst = {key: max(value, worst.get(key, 0)) for key, value in off.items()}
    print(f"{name}:", ", ".join(f"{key} {value:.1e}" for key, value in worst.items()), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)  # the same sums in the same order, however many cores there are
    low = {"--bf16": torch.bfloat16, "--f16": torch.float16}.get(
        next((a for a in sys.argv[1:] if a.startswith("--")), "")
    )
    for chosen in [a for a in sys.argv[1:] if not a.startswith("--")] or CASES:
        (
            print_low(chosen, CASES[chosen], low)
            if low
            else generate(chosen, CASES[chosen], os.path.dirname(os.path.abspath(__file__)))
        )
