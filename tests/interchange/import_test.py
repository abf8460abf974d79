"""Weights of torchvision and timm, imported by Convoy, have the logits of PyTorch in float64, in every format that
PyTorch writes: `make test-interchange`."""

import unittest

import numpy as np
import timm
import torch
import torchvision
from common import Case, Mnist, convoy, randomized, resnet
from safetensors.torch import load_file, save_file
from torch import nn

MEAN, STDDEV = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def halved(net, dtype):
    return {name: t.to(dtype) if t.is_floating_point() else t for name, t in net.state_dict().items()}


def checkpoint(net):
    """As training scripts of DistributedDataParallel write it, with the state of an optimizer."""
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)
    sum(p.sum() for p in net.parameters()).backward()
    optimizer.step()
    return {"epoch": 3, "arch": "x", "best_acc1": 12.5, "state_dict": nn.DataParallel(net).state_dict(),
            "optimizer": optimizer.state_dict()}  # fmt: skip


FORMATS = {
    ".pth": lambda net, path: torch.save(net.state_dict(), path),
    "-old.pth": lambda net, path: torch.save(net.state_dict(), path, _use_new_zipfile_serialization=False),
    "-ddp.pth": lambda net, path: torch.save(checkpoint(net), path),
    "-channels-last.pt": lambda net, path: torch.save(net.to(memory_format=torch.channels_last).state_dict(), path),
    "-f64.pth": lambda net, path: torch.save(halved(net, torch.float64), path),
    ".safetensors": lambda net, path: save_file(net.state_dict(), path),
    "-bf16.safetensors": lambda net, path: save_file(halved(net, torch.bfloat16), path),
    "-f16.pth": lambda net, path: torch.save(halved(net, torch.float16), path),
}


class Import(Case):
    def imported(self, path, model, *options):
        convoy("import", "--from", path, "--model", model, "--to", f"{self.dir}/x.h5", "--overwrite", *options)
        return f"{self.dir}/x.h5"

    def check(self, net, model, size, suffix):
        data, path = self.synthetic(size), f"{self.dir}/{model}{suffix}"
        FORMATS[suffix](net, path)
        for half, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            if half in suffix.split(".")[0].split("-"):
                net.load_state_dict(halved(net, dtype))
        ours = self.logits(self.imported(path, model, "--data", data, "--normalize", "imagenet"), data)
        x = (self.images(data) / 255.0 - np.reshape(MEAN, (3, 1, 1))) / np.reshape(STDDEV, (3, 1, 1))
        with torch.no_grad():
            theirs = net.double().eval()(torch.from_numpy(x)).numpy()
        self.assert_close(ours, theirs, f"{model}{suffix} on {size}")
        net.float()

    def test_every_format(self):
        for suffix in FORMATS:
            torch.manual_seed(1)
            self.check(randomized(torchvision.models.resnet18(num_classes=10)), "resnet18", "96x96x3", suffix)

    def test_every_resnet_of_torchvision(self):
        for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"):
            torch.manual_seed(2)
            net = randomized(getattr(torchvision.models, name)(num_classes=10))
            self.check(net, name, "224x224x3" if name in ("resnet18", "resnet50") else "96x96x3", ".pth")

    def test_resnets_of_timm(self):
        for name in ("resnet18", "resnet34", "resnet50", "resnet101"):
            torch.manual_seed(3)
            self.check(randomized(timm.create_model(name, num_classes=10)), name, "96x96x3", ".safetensors")

    def test_the_cifar_stem(self):
        for name in ("resnet18", "resnet50"):
            torch.manual_seed(4)
            self.check(randomized(resnet(name, "cifar")), name, "32x32x3", ".pth")

    def test_a_resnet_of_1000_classes_with_all_defaults(self):
        torch.manual_seed(5)
        torch.save(torchvision.models.resnet50().state_dict(), f"{self.dir}/r.pth")
        said = convoy("import", "--from", f"{self.dir}/r.pth", "--model", "resnet50", "--to", f"{self.dir}/r.h5")
        for words in ("images 224x224x3 (short side 256)", "mean 0.485,0.456,0.406", "1000 classes"):
            self.assertIn(words, said)

    def test_timms_deep_stem_is_refused_by_name(self):
        save_file(timm.create_model("resnet18d").state_dict(), f"{self.dir}/d.safetensors")
        with self.assertRaises(AssertionError) as refusal:
            self.imported(f"{self.dir}/d.safetensors", "resnet18")
        self.assertIn("unexpected conv1.0.weight file [32, 3, 3, 3]", str(refusal.exception))

    def test_there_and_back(self):
        """PyTorch to Convoy to PyTorch: every value is the same."""
        for model, net in (("resnet18", randomized(torchvision.models.resnet18(num_classes=10))), ("mnist-conv", Mnist())):
            torch.save(net.state_dict(), f"{self.dir}/{model}.pth")
            file = self.imported(f"{self.dir}/{model}.pth", model)
            convoy("export", "--model-file", file, "--to", f"{self.dir}/{model}.safetensors")
            back = load_file(f"{self.dir}/{model}.safetensors")
            self.assertEqual(set(back), set(net.state_dict()))
            for name, tensor in net.state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    self.assertTrue(torch.equal(back[name], tensor), name)


if __name__ == "__main__":
    unittest.main()
