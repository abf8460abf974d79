"""Writes tests/golden/weights: weights as PyTorch saves them, and the logits that PyTorch computes in float64.

    PYTHON tests/golden/make_weights.py    # a Python with torch, safetensors and numpy; from the repository's root
"""

import gzip
import os

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__)) + "/weights"
IMAGES = 8


class Mnist(nn.Module):
    """The net of PyTorch's MNIST example."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x):
        x = torch.relu(torch.max_pool2d(self.conv1(x), 2))
        x = torch.relu(torch.max_pool2d(self.conv2(x), 2))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        return self.fc(x.flatten(1))


def images():
    with gzip.open("input/mnist-sample/t10k-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16, count=IMAGES * 784)
    x = (pixels.reshape(IMAGES, 1, 28, 28) / 255.0 - 0.1307) / 0.3081
    return torch.from_numpy(x)


def main():
    torch.manual_seed(1)
    conv, linear = Mnist(), Linear()
    save_file({name: t.half() for name, t in conv.state_dict().items()}, f"{HERE}/mnist-conv.safetensors")
    conv.load_state_dict({name: t.half().float() for name, t in conv.state_dict().items()})
    checkpoint = {"epoch": 2, "best": 0.5, "model": nn.DataParallel(linear).state_dict()}
    torch.save(checkpoint, f"{HERE}/mnist-linear.pth")
    small = {"fc.weight": torch.arange(100).reshape(10, 10) / 128, "fc.bias": torch.arange(10) / 16}
    torch.save(small, f"{HERE}/linear.pth")
    torch.save(small, f"{HERE}/linear-old.pth", _use_new_zipfile_serialization=False)
    with open(f"{HERE}/logits.csv", "w") as file, torch.no_grad():
        print("model,image," + ",".join(f"logit{i}" for i in range(10)), file=file)
        for name, net in (("mnist-conv", conv), ("mnist-linear", linear)):
            for i, row in enumerate(net.double()(images()).tolist()):
                print(f"{name},{i}," + ",".join(f"{v:.9f}" for v in row), file=file)


if __name__ == "__main__":
    main()
