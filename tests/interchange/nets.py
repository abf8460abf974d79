"""Nets in PyTorch with the names that `convoy export` uses for models that torchvision does not have (output/README.md)."""

import torch
import torch.nn.functional as F
from torch import nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        return self.fc(x.flatten(1))


class ConvGroup(nn.Module):
    """Two convolutions of airbench94."""

    def __init__(self, width, out):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(n, out, 3, padding=1, bias=False) for n in (width, out))
        self.norm1, self.norm2 = (nn.BatchNorm2d(out, eps=1e-12) for _ in range(2))

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


def groups():
    return [ConvGroup(24, 64), ConvGroup(64, 256), ConvGroup(256, 256), nn.MaxPool2d(3)]


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def airbench94():
    head = [nn.Flatten(), nn.Linear(256, 10, bias=False), Times(1 / 9)]
    return nn.Sequential(nn.Conv2d(3, 24, 2), nn.GELU(), *groups(), *head)


class AirbenchMuon(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten, self.head = nn.Conv2d(3, 24, 2), nn.Linear(256, 10, bias=False)
        self.layers = nn.Sequential(nn.GELU(), *groups())

    def forward(self, x):
        return self.head(self.layers(self.whiten(x)).flatten(1)) / 256


class PyramidBlock(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(width), nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(out), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn3, self.stride, self.more = nn.BatchNorm2d(out), stride, out - width

    def forward(self, x):
        y = self.bn3(self.conv2(torch.relu(self.bn2(self.conv1(self.bn1(x))))))
        x = F.avg_pool2d(x, 2) if self.stride == 2 else x
        return y + F.pad(x, (0, 0, 0, 0, 0, self.more))


class PyramidNet(nn.Module):
    """Every block is 5 channels wider than the one before."""

    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1, width = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), 16
        for stage in (1, 2, 3):
            stride, layer = 1 if stage == 1 else 2, nn.Sequential()
            for k in range(blocks):
                layer.append(PyramidBlock(width, width + 5, stride if k == 0 else 1))
                width += 5
            setattr(self, f"layer{stage}", layer)
        self.bn_final, self.fc = nn.BatchNorm2d(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.bn1(self.conv1(x)))))
        return self.fc(torch.relu(self.bn_final(x)).mean((2, 3)))
