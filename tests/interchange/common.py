"""What the scripts of `make test-interchange` share: Convoy, its data sets and logits, and nets of PyTorch."""

import os
import subprocess
import tempfile
import unittest

import h5py
import numpy as np
import torch
import torchvision
from torch import nn

CONVOY = os.path.join(os.environ.get("BUILD", "build"), "convoy")


def convoy(*arguments):
    done = subprocess.run([CONVOY, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr + done.stdout)
    return done.stdout


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


def resnet(name, stem="imagenet"):
    net = getattr(torchvision.models, name)(num_classes=10)
    if stem == "cifar":
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return net


def randomized(net):
    """Gives batch norms statistics and scales that a wrong use of them would show."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
    return net.eval()


class Case(unittest.TestCase):
    """A test with a folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def synthetic(self, size, *options):
        data = f"{self.dir}/data-{size}"
        if not os.path.exists(data):
            convoy("convert", "synthetic", "--images", 32, "--test-images", 12, "--shards", 1, "--size", size,
                   "--to", data, *options)  # fmt: skip
        return data

    def images(self, data):
        """[images, channels, height, width] of the test split."""
        with h5py.File(f"{data}/test-00000-of-00001.h5") as shard:
            return shard["images"][()].transpose(0, 3, 1, 2)

    def logits(self, model_file, data):
        """What Convoy computes of the test split."""
        convoy("classify", "--model-file", model_file, "--data", data, "--format", "csv",
               "--to", f"{self.dir}/logits.h5", "--overwrite")  # fmt: skip
        with h5py.File(f"{self.dir}/logits.h5") as file:
            return file["logits"][()]

    def assert_close(self, ours, theirs, what):
        """Prints the largest difference, relative to the largest logit if that exceeds 1."""
        error = np.abs(ours - theirs).max() / max(1, np.abs(theirs).max())
        print(f"    {what}: largest logit {np.abs(theirs).max():.3g}, largest relative difference {error:.1e}", flush=True)
        self.assertEqual(ours.shape, theirs.shape)
        self.assertLess(error, 1e-4, what)
