"""Fine-tuning does what PyTorch does: the same weights in, frozen layers, batch norms in evaluation mode, factors of
the rate, and after some steps the same weights as PyTorch in float64: `make test-interchange`."""

import copy
import unittest

import h5py
import numpy as np
import torch
from common import Case, convoy, randomized, resnet
from safetensors.torch import load_file, save_file
from torch import nn

MEAN, STDDEV = (0.5, 0.4, 0.3), (0.25, 0.3, 0.2)
RATE, MOMENTUM, DECAY, STEPS, FACTOR = 0.02, 0.9, 1e-3, 3, 5


class FineTuning(Case):
    def training_images(self, data):
        """Normalised [images, channels, height, width] of the training split, and its labels."""
        with h5py.File(f"{data}/train-00000-of-00001.h5") as shard:
            pixels, labels = shard["images"][()].transpose(0, 3, 1, 2), shard["labels"][()]
        mean, stddev = (np.array(v)[None, :, None, None] for v in (MEAN, STDDEV))
        return torch.from_numpy((pixels / 255.0 - mean) / stddev), torch.from_numpy(labels.astype(np.int64))

    def by_pytorch(self, net, dtype, data, frozen, fixed):
        """The state_dict after STEPS steps of the whole training split, computed in `dtype`."""
        images, labels = self.training_images(data)
        images = images.to(dtype)
        net = copy.deepcopy(net).to(dtype).train()
        for name, module in net.named_children():
            if name in frozen:
                module.requires_grad_(False)
                if fixed:
                    module.eval()
        head = list(net.fc.parameters())
        body = [p for n, p in net.named_parameters() if p.requires_grad and not n.startswith("fc.")]
        groups = [{"params": body}, {"params": head, "lr": FACTOR * RATE}]
        optimizer = torch.optim.SGD(groups, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
        return net.state_dict()

    def check(self, frozen, fixed, most):
        torch.manual_seed(1)
        net = randomized(resnet("resnet18", "cifar"))
        start = f"{self.dir}/start.safetensors"
        save_file(net.state_dict(), start)
        data, numbers = self.synthetic("8x8x3"), lambda values: ",".join(map(str, values))
        convoy("train", "--data", data, "--model", "resnet18", "--stem", "cifar", "--init-from", start,
               "--batch-size", 32, "--epochs", STEPS, "--lr", RATE, "--momentum", MOMENTUM, "--weight-decay", DECAY,
               "--mean", numbers(MEAN), "--stddev", numbers(STDDEV), "--lr-factor", f"fc.*={FACTOR}",
               "--freeze", ",".join(f"{name}.*" for name in frozen), *(["--freeze-batchnorm"] if fixed else []),
               "--output", f"{self.dir}/run", "--overwrite", "--no-eval")  # fmt: skip
        convoy("export", "--model-file", f"{self.dir}/run/model.h5", "--to", f"{self.dir}/ours.safetensors", "--overwrite")
        before, ours = load_file(start), load_file(f"{self.dir}/ours.safetensors")
        exact, single = (self.by_pytorch(net, dtype, data, frozen, fixed) for dtype in (torch.float64, torch.float32))
        errors, change = {"Convoy": 0, "PyTorch in float32": 0}, 0  # sums of squares over all tensors
        for name, expected in exact.items():
            if name.endswith("num_batches_tracked"):
                continue
            step = (expected - before[name].double()).square().sum().item()
            change += step
            for who, values in (("Convoy", ours), ("PyTorch in float32", single)):
                error = (expected - values[name].double()).square().sum().item()
                errors[who] += error
                if step == 0:
                    self.assertEqual(error, 0, f"{who}: {name}")
        errors = {who: (error / change) ** 0.5 for who, error in errors.items()}
        print(f"    frozen {', '.join(frozen)}{' and statistics' * fixed}: difference from float64, relative to the change "
              f"of all weights: {', '.join(f'{who} {error:.1e}' for who, error in errors.items())}", flush=True)  # fmt: skip
        self.assertLess(errors["Convoy"], most)

    # Rounding can take the argument of a ReLU across zero. With 32 images, that moves the gradient
    # of a channel by hundredths, and the change of all weights by less than one. No ReLU follows a
    # frozen body.

    def test_frozen_body(self):
        self.check(["conv1", "bn1", "layer1", "layer2", "layer3", "layer4"], True, 1e-5)

    def test_frozen_first_layers(self):
        self.check(["conv1", "bn1", "layer1", "layer2"], True, 0.03)

    def test_frozen_weights_with_moving_statistics(self):
        self.check(["conv1", "bn1", "layer1"], False, 0.03)

    def test_frozen_layers_in_the_middle(self):
        """Gradients go back through frozen convolutions and fixed batch norms."""
        self.check(["layer2", "layer3"], True, 0.03)


if __name__ == "__main__":
    unittest.main()
