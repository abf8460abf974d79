"""Models that Convoy trained and exported compute the same in PyTorch: `make test-interchange`, with a Python
that has torch, torchvision, safetensors and h5py (PEER_PYTHON). Compared with what `convoy evaluate` prints."""

import glob
import json
import re
import unittest

import h5py
import numpy as np
import torch
from common import Case, Mnist, convoy, resnet
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

class Torch(Case):
    def check(self, model, net, data, *options):
        run, file = f"{self.dir}/{model}", f"{self.dir}/{model}.safetensors"
        convoy("train", "--model", model, "--data", data, "--lr", 0.01, "--batch-size", 16, "--max-steps", 5,
               "--eval-images", 16, "--checkpoint-every", "none", "--output", run, *options)  # fmt: skip
        convoy("export", "--model-file", f"{run}/model.h5", "--to", file)
        said = convoy("evaluate", "--model-file", f"{run}/model.h5", "--data", data)
        loss, correct = re.search(r"loss ([0-9.]+), accuracy [0-9.]+ % \((\d+) of", said).groups()
        images, labels = [], []
        for path in sorted(glob.glob(f"{data}/test-*.h5")):
            with h5py.File(path) as shard:
                images.append(shard["images"][()])
                labels.append(shard["labels"][()])
        with safe_open(file, "pt") as opened:
            info = opened.metadata()
        mean, stddev = (np.array(json.loads(info[key])) for key in ("mean", "stddev"))
        x = (np.concatenate(images) / 255.0 - mean) / stddev
        y = torch.from_numpy(np.concatenate(labels).astype(np.int64))
        net.load_state_dict(load_file(file), strict=True)
        net.double().eval()
        with torch.no_grad():
            logits = torch.cat([net(part) for part in torch.from_numpy(x.transpose(0, 3, 1, 2)).split(50)])
        self.assertAlmostEqual(nn.functional.cross_entropy(logits, y).item(), float(loss), delta=1e-4 * float(loss) + 1e-4)
        self.assertLessEqual(abs(int((logits.argmax(1) == y).sum()) - int(correct)), 1)
        self.assertEqual(len(json.loads(info["class_names"])), 10)

    def test_mnist(self):
        convoy("convert", "mnist", "--from", "input/mnist-sample", "--to", f"{self.dir}/mnist")
        self.check("mnist-conv", Mnist(), f"{self.dir}/mnist")

    def test_resnets_with_the_cifar_stem(self):
        for name in ("resnet18", "resnet34", "resnet50"):
            with self.subTest(name):
                self.check(name, resnet(name, "cifar"), "input/cifar10-sample")

    def test_resnets_as_torchvision_has_them(self):
        data = f"{self.dir}/images"
        convoy("convert", "synthetic", "--images", 64, "--test-images", 32, "--size", "96x96x3", "--to", data)
        for name in ("resnet18", "resnet50"):
            with self.subTest(name):
                self.check(name, resnet(name), data)


if __name__ == "__main__":
    unittest.main()
