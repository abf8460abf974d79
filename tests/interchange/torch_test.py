"""Models that Convoy trained and exported compute the same in PyTorch: `make test-interchange`, with a Python
that has torch, torchvision, safetensors and h5py (PEER_PYTHON)."""

import glob
import json
import re
import unittest

import h5py
import numpy as np
import nets
import torch
from common import Case, Mnist, convoy, resnet
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn


class Torch(Case):
    def check_logits(self, model, net, size):
        """Compares logits with those of `convoy classify`, in float32 and float64. f16 and bf16 have the weights of
        f32, rounded as PyTorch rounds them. An import of the file is exported as the same bytes."""
        data, run = self.synthetic(size), f"{self.dir}/{model}"
        convoy("train", "--model", model, "--data", data, "--lr", 0.01, "--batch-size", 8, "--max-steps", 3,
               "--eval-images", 8, "--checkpoint-every", "none", "--output", run)  # fmt: skip
        files = {dtype: f"{run}/{dtype}.safetensors" for dtype in ("f32", "f16", "bf16")}
        for dtype, file in files.items():
            convoy("export", "--model-file", f"{run}/model.h5", "--to", file, "--dtype", dtype)
        convoy("import", "--from", files["f32"], "--to", f"{run}/imported.h5")
        convoy("export", "--model-file", f"{run}/imported.h5", "--to", f"{run}/again.safetensors")
        with open(files["f32"], "rb") as first, open(f"{run}/again.safetensors", "rb") as second:
            self.assertEqual(first.read(), second.read(), model)
        weights = load_file(files["f32"])
        for dtype, half in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            for name, tensor in load_file(files[dtype]).items():
                rounded = weights[name].to(half) if weights[name].is_floating_point() else weights[name]
                self.assertTrue(torch.equal(tensor, rounded), f"{name} in {dtype}")
        with safe_open(files["f32"], "pt") as opened:
            info = opened.metadata()
        mean, stddev = (np.reshape(json.loads(info[key]), (-1, 1, 1)) for key in ("mean", "stddev"))
        x = torch.from_numpy((self.images(data) / 255.0 - mean) / stddev)
        ours = self.logits(f"{run}/model.h5", data)
        net.load_state_dict(weights, strict=True)
        for dtype in (torch.float32, torch.float64):
            with torch.no_grad():
                theirs = net.to(dtype).eval()(x.to(dtype)).numpy()
            self.assert_close(ours, theirs, f"{model} in {dtype}")

    def test_logits_of_every_model(self):
        small = {"pyramidnet": nets.PyramidNet(17), "pyramidnet110": nets.PyramidNet(18),
                 "airbench94": nets.airbench94(), "airbench94-muon": nets.AirbenchMuon()}  # fmt: skip
        grey = {"mnist-linear": nets.Linear(), "mnist-conv": Mnist()}
        imagenet = {f"resnet{depth}": resnet(f"resnet{depth}") for depth in (18, 34, 50, 101, 152)}
        for models, size in ((small, "32x32x3"), (grey, "28x28x1"), (imagenet, "96x96x3")):
            for model, net in models.items():
                with self.subTest(model):
                    self.check_logits(model, net, size)

    def check(self, model, net, data, *options):
        """Compares loss and correct images with what `convoy evaluate` prints."""
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
