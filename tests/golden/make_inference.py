"""Writes tests/golden/inference.csv: logits that PyTorch computes in float64 with running statistics.

    PYTHON tests/golden/make_inference.py    # a Python with torch and numpy; from the repository's root

Input, parameters and statistics are not stored. Both sides make them from streams, as make_golden.py describes. Here v
becomes 1 + v/4 for scales, 1 + v/2 for variances, v/4 for means and v/8 for biases: rounded once, also if a compiler
fuses the two operations.
"""

import math
import os
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from models import MODELS, Net, flatten, stream

IMAGES, CLASSES = 2, 10


def value(name, shape):
    v = stream(name, math.prod(shape)).reshape(shape)
    ending = name.rsplit(".")[-1]
    if ending != "weight":
        return {"scale": 1 + v / 4, "var": 1 + v / 2, "mean": v / 4, "bias": v / 8}[ending]
    fan_in = math.prod(shape[1:])
    return v * np.float32(math.sqrt(3 / fan_in) if len(shape) == 4 else 1 / math.sqrt(fan_in))


class InferenceNet(Net):
    def parameter(self, name, *shape, frozen=False):
        return torch.from_numpy(value(name, shape)).to(self.dtype)

    def norm(self, name, x, momentum=0.1, eps=1e-5, frozen=False):
        mean, var, scale, bias = (self.parameter(f"{name}.{part}", x.shape[1]) for part in ("mean", "var", "scale", "bias"))
        return F.batch_norm(x, mean, var, scale, bias, training=False, eps=eps)


def every_operation(net, x, case):
    """All that models are made of, on 16x16 images: export_golden_test.cpp builds the same."""
    x = F.relu(net.norm("bn1", net.conv("conv1", x, 8, 3, 2, 1)))
    y = net.norm("bn2", net.conv("conv2", x, 12, 3, 2, 1, bias=True))
    x = F.pad(F.avg_pool2d(x, 2), (0, 0, 0, 0, 0, 4))
    x = F.gelu(net.norm("bn3", x + y))
    y = F.pad(x, (0, 0, 0, 0, 0, 4)) + net.conv("conv3", x, 16, 1)
    x = flatten(F.max_pool2d(net.norm("bn4", y), 3, 2, 1))
    return net.linear("fc2", F.relu(net.linear("fc1", x, 20)), case.classes, bias=False) / 4


def main():
    cases = [("every-operation", every_operation, 16), ("resnet18", MODELS["resnet18"], 32),
             ("airbench94", MODELS["airbench94"], 32)]  # fmt: skip
    here = os.path.dirname(os.path.abspath(__file__))
    with open(f"{here}/inference.csv", "w") as file, torch.no_grad():
        print("model,image," + ",".join(f"logit{i}" for i in range(CLASSES)), file=file)
        for name, model, size in cases:
            x = torch.from_numpy(stream("input", IMAGES * size * size * 3).reshape(IMAGES, size, size, 3))
            net = InferenceNet(torch.float64, torch.contiguous_format)
            case = SimpleNamespace(classes=CLASSES, stem="imagenet")
            for i, row in enumerate(model(net, x.permute(0, 3, 1, 2).double(), case).tolist()):
                print(f"{name},{i}," + ",".join(f"{v:.9f}" for v in row), file=file)


if __name__ == "__main__":
    main()
