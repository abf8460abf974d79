"""Convoy's models in PyTorch, with parameters from streams, as make_golden.py describes them."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F


def philox4x32(blocks, key):
    """The cipher's words for blocks 0 to blocks - 1: counter (low b, high b, 0, 0), 10 rounds."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    b = np.arange(blocks, dtype=np.uint64)
    c0, c1, c2, c3 = b & low, b >> half, np.zeros_like(b), np.zeros_like(b)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32).reshape(-1)


def stream(name, count):
    key = 14695981039346656037
    for byte in name.encode():
        key = ((key ^ byte) * 1099511628211) % 2**64
    words = philox4x32((count + 3) // 4, key)[:count]
    return words.view(np.int32).astype(np.float32) * np.float32(2**-31)


def initial(name, shape):
    """The parameter called `name`, of Convoy's shape, in float32."""
    v = stream(name, math.prod(shape)).reshape(shape)
    if name.endswith(".scale"):
        return np.float32(1) + np.float32(0.2) * v
    if name.endswith(".bias"):
        return np.float32(0.1) * v
    fan_in = math.prod(shape[1:])
    return v * np.float32(math.sqrt(3 / fan_in) if len(shape) == 4 else 1 / math.sqrt(fan_in))


class Net:
    """Layers that make their parameters when first used, with Convoy's names and in Convoy's layout."""

    def __init__(self, dtype, layout):
        self.dtype, self.layout, self.parameters, self.frozen, self.running = dtype, layout, {}, {}, {}

    def parameter(self, name, *shape, frozen=False):
        group = self.frozen if frozen else self.parameters
        if name not in group:
            group[name] = torch.from_numpy(initial(name, shape)).to(self.dtype).requires_grad_(not frozen)
        return group[name]

    def conv(self, name, x, out, kernel, stride=1, pad=0, bias=False, frozen=False):
        weight = self.parameter(f"{name}.weight", out, kernel, kernel, x.shape[1], frozen=frozen)
        weight = weight.permute(0, 3, 1, 2).contiguous(memory_format=self.layout)
        return F.conv2d(x, weight, self.parameter(f"{name}.bias", out) if bias else None, stride, pad)

    def linear(self, name, x, out, bias=True):
        return F.linear(
            x, self.parameter(f"{name}.weight", out, x.shape[1]), self.parameter(f"{name}.bias", out) if bias else None
        )

    def norm(self, name, x, momentum=0.1, eps=1e-5, frozen=False):
        c = x.shape[1]
        mean = self.running.setdefault(f"{name}.mean", torch.zeros(c, dtype=self.dtype))
        var = self.running.setdefault(f"{name}.var", torch.ones(c, dtype=self.dtype))
        scale, bias = self.parameter(f"{name}.scale", c, frozen=frozen), self.parameter(f"{name}.bias", c)
        return F.batch_norm(x, mean, var, scale, bias, training=True, momentum=momentum, eps=eps)


def flatten(x):
    """In HWC order, as Convoy's tensors lie."""
    return x.permute(0, 2, 3, 1).flatten(1)


def linear(net, x, case):
    return net.linear("fc", flatten(x), case.classes)


def mnist_conv(net, x, case):
    """Without its dropout layers."""
    x = F.relu(F.max_pool2d(net.conv("conv1", x, 10, 5, bias=True), 2))
    x = F.relu(F.max_pool2d(net.conv("conv2", x, 20, 5, bias=True), 2))
    return net.linear("fc2", F.relu(net.linear("fc1", flatten(x), 50)), case.classes)


def airbench94(net, x, case):
    """Whitening filters and the scales of batch norms are frozen, at their streams like everything else."""
    x = F.gelu(net.conv("whitening", x, 24, 2, bias=True, frozen=True))
    for k, width in enumerate((64, 256, 256), 1):
        x = F.max_pool2d(net.conv(f"group{k}.conv1", x, width, 3, 1, 1), 2)
        x = F.gelu(net.norm(f"group{k}.bn1", x, 0.4, 1e-12, frozen=True))
        x = net.conv(f"group{k}.conv2", x, width, 3, 1, 1)
        x = F.gelu(net.norm(f"group{k}.bn2", x, 0.4, 1e-12, frozen=True))
    return net.linear("fc", flatten(F.max_pool2d(x, 3)), case.classes, bias=False) / 9


def resnet(net, x, case, depths, bottleneck):
    """The stride is in the 3x3 convolution (version 1.5); a projection is the shortcut where the shape changes."""
    if case.stem == "imagenet":
        x = F.max_pool2d(F.relu(net.norm("stem.bn", net.conv("stem.conv", x, 64, 7, 2, 3))), 3, 2, 1)
    else:
        x = F.relu(net.norm("stem.bn", net.conv("stem.conv", x, 64, 3, 1, 1)))
    for stage, depth in enumerate(depths):
        w = 64 << stage
        for k in range(depth):
            block, s = f"stage{stage + 1}.block{k}", 2 if stage and k == 0 else 1
            plan = [(w, 1, 1), (w, 3, s), (4 * w, 1, 1)] if bottleneck else [(w, 3, s), (w, 3, 1)]
            y = x
            for j, (out, kernel, stride) in enumerate(plan, 1):
                y = net.norm(f"{block}.bn{j}", net.conv(f"{block}.conv{j}", y, out, kernel, stride, kernel // 2))
                y = F.relu(y) if j < len(plan) else y
            if x.shape != y.shape:
                x = net.norm(f"{block}.down.bn", net.conv(f"{block}.down.conv", x, out, 1, s))
            x = F.relu(x + y)
    return net.linear("fc", x.mean((2, 3)), case.classes)


def pyramidnet(net, x, case, depth):
    """Every block is 5 channels wider than the one before; shortcuts are padded with zero channels."""
    w = 16
    x = net.norm("stem.bn", net.conv("stem.conv", x, w, 3, 1, 1))
    for stage in (1, 2, 3):
        for k in range(depth):
            block, stride, w = f"stage{stage}.block{k}", 2 if stage > 1 and k == 0 else 1, w + 5
            y = net.conv(f"{block}.conv1", net.norm(f"{block}.bn1", x), w, 3, stride, 1)
            y = net.conv(f"{block}.conv2", F.relu(net.norm(f"{block}.bn2", y)), w, 3, 1, 1)
            x = F.avg_pool2d(x, 2) if stride == 2 else x
            x = net.norm(f"{block}.bn3", y) + F.pad(x, (0, 0, 0, 0, 0, 5))
    return net.linear("fc", F.relu(net.norm("head.bn", x)).mean((2, 3)), case.classes)


MODELS = {
    "linear": linear,
    "mnist-linear": linear,
    "airbench94": airbench94,
    "mnist-conv": mnist_conv,
    "resnet18": partial(resnet, depths=(2, 2, 2, 2), bottleneck=False),
    "resnet50": partial(resnet, depths=(3, 4, 6, 3), bottleneck=True),
    "pyramidnet": partial(pyramidnet, depth=17),
    "pyramidnet110": partial(pyramidnet, depth=18),
}
