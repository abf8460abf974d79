"""Models that Convoy trained and exported as ONNX pass onnx.checker, and have the same logits in onnxruntime, in f32,
f16 and bf16: `make test-interchange`."""

import json
import os
import re
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
import torch
from common import Case, convoy
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from PIL import Image


def with_bf16_weights(path):
    """The model of an f32 file, with the weights that an export in bf16 rounds."""
    model = onnx.load(path)
    for constant in model.graph.initializer:
        if len(constant.dims) >= 2 and constant.data_type == onnx.TensorProto.FLOAT:
            rounded = torch.from_numpy(numpy_helper.to_array(constant).copy()).bfloat16().float().numpy()
            constant.CopyFrom(numpy_helper.from_array(rounded, constant.name))
    return model


class Onnx(Case):
    def session(self, model):
        """A session of a path or a model."""
        loaded = onnx.load(model) if isinstance(model, str) else model
        onnx.checker.check_model(loaded, full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        return onnxruntime.InferenceSession(
            loaded.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def exported(self, file, name, *options):
        path = f"{self.dir}/{name}.onnx"
        convoy("export", "--model-file", file, "--to", path, "--overwrite", *options)
        return path

    def trained(self, model, data, *options):
        convoy("train", "--model", model, "--data", data, "--checkpoint-every", "none", "--eval-images", 8,
               "--output", f"{self.dir}/{model}", "--overwrite", *options)  # fmt: skip
        return f"{self.dir}/{model}/model.h5"

    def normalized(self, session, pixels):
        """What a session of a model without --raw-pixels takes."""
        facts = session.get_modelmeta().custom_metadata_map
        self.assertEqual(len(json.loads(facts["class_names"])), 10)
        mean, stddev = (np.reshape(json.loads(facts[key]), (-1, 1, 1)) for key in ("mean", "stddev"))
        return pixels if pixels.dtype == np.float32 else ((pixels / 255.0 - mean) / stddev).astype(np.float32)

    def assert_close_in_f16(self, ours, theirs, nodes, what):
        """Each operation rounds its result to 11 bits, so by at most 2^-11 of it. The errors of n operations are
        independent: they add up to sqrt(n) times as much. Twice that is allowed. The class is the same where
        the two largest logits differ by more."""
        largest = np.abs(ours).max()
        limit = 2 * 2**-11 * nodes**0.5 * largest
        error = np.abs(ours - theirs).max()
        second, first = np.sort(ours, axis=1)[:, -2:].T
        clear = first - second > limit
        print(f"    {what}: largest logit {largest:.3g}, largest relative difference {error / largest:.1e} of "
              f"{limit / largest:.1e} allowed, class compared for {clear.sum()} of {len(ours)}", flush=True)  # fmt: skip
        self.assertEqual(theirs.dtype, np.float32)
        self.assertLess(error, limit, what)
        self.assertTrue((ours.argmax(1) == theirs.argmax(1))[clear].all(), what)

    def check(self, model, file, data):
        ours, pixels = self.logits(file, data), self.images(data)
        path = self.exported(file, model)
        session = self.session(path)
        x = self.normalized(session, pixels)
        self.assert_close(ours, session.run(["logits"], {"images": x})[0], model)
        self.assertEqual(session.run(["logits"], {"images": x[:1]})[0].shape, (1, 10), "the batch is dynamic")
        f16 = self.exported(file, f"{model}-f16", "--dtype", "f16")
        nodes = len(onnx.load(f16).graph.node)
        theirs = self.session(f16).run(["logits"], {"images": x})[0]
        self.assert_close_in_f16(ours, theirs, nodes, f"{model} in f16")
        rounded = self.session(with_bf16_weights(path)).run(["logits"], {"images": x})[0]
        bf16 = self.session(self.exported(file, f"{model}-bf16", "--dtype", "bf16"))
        self.assert_close(rounded, bf16.run(["logits"], {"images": x})[0], f"{model} with weights in bf16")
        if pixels.dtype == np.float32:
            return
        raw = self.session(self.exported(file, f"{model}-raw", "--raw-pixels"))
        self.assert_close(ours, raw.run(["logits"], {"pixels": pixels})[0], f"{model} --raw-pixels")
        raw = self.session(self.exported(file, f"{model}-raw-f16", "--raw-pixels", "--dtype", "f16"))
        theirs = raw.run(["logits"], {"pixels": pixels})[0]
        self.assert_close_in_f16(ours, theirs, nodes, f"{model} --raw-pixels in f16")

    def check_new(self, model, data):
        file = self.trained(model, data, "--lr", 0.01, "--batch-size", 8, "--max-steps", 3)
        self.check(model, file, data)

    def test_models_of_32_pixels(self):
        for model in ("resnet18", "resnet34", "resnet50", "pyramidnet", "pyramidnet110", "airbench94", "airbench94-muon"):
            with self.subTest(model):
                self.check_new(model, self.synthetic("32x32x3"))

    def test_resnets_with_the_imagenet_stem(self):
        for model in ("resnet18", "resnet50", "resnet101", "resnet152"):
            with self.subTest(model):
                self.check_new(model, self.synthetic("96x96x3"))

    def test_grey_images_and_vectors(self):
        self.check_new("mnist-conv", self.synthetic("28x28x1"))
        self.check_new("mnist-linear", self.synthetic("28x28x1"))
        self.check_new("linear", self.synthetic("1x1x10", "--kind", "normal"))

    def test_the_sample_images(self):
        """All 400 have the same class. onnx's own evaluator computes every operation in f16, which onnxruntime does
        only on GPUs."""
        data = "input/cifar10-sample"
        for model in ("airbench94", "resnet18"):
            with self.subTest(model):
                file = self.trained(model, data, "--lr", 0.01, "--batch-size", 50, "--max-steps", 40)
                self.check(model, file, data)
                ours, session = self.logits(file, data), self.session(f"{self.dir}/{model}.onnx")
                x = self.normalized(session, self.images(data))
                theirs = session.run(["logits"], {"images": x})[0]
                self.assertEqual(list(ours.argmax(1)), list(theirs.argmax(1)))
                f16 = onnx.load(f"{self.dir}/{model}-f16.onnx")
                theirs = ReferenceEvaluator(f16).run(["logits"], {"images": x[:4]})[0]
                self.assert_close_in_f16(ours[:4], theirs, len(f16.graph.node), f"{model} with each operation in f16")

    def test_the_lines_of_the_readme(self):
        """They print the class that classify finds, if it is clear: the two resize within a hundredth."""
        with open("README.md", encoding="utf-8") as file:
            lines = re.search(r"^    import .*onnxruntime.*\n(?:    .*\n)+", file.read(), re.M)[0]
        model = self.trained("resnet18", "input/cifar10-sample", "--batch-size", 50, "--max-steps", 20,
                             "--lr", 0.01, "--image-size", 28)  # fmt: skip
        os.makedirs(f"{self.dir}/output")
        convoy("export", "--model-file", model, "--to", f"{self.dir}/output/photos.onnx", "--raw-pixels")
        clear = set()
        for number, pixels in enumerate(self.images("input/cifar10-sample")[:40]):
            picture = f"{self.dir}/cat.jpg"
            size = (40 + number, 90 - number)  # wide and high ones
            Image.fromarray(pixels.transpose(1, 2, 0)).resize(size).save(picture, quality=95)
            found = json.loads(convoy("classify", "--model-file", model, "--format", "json", picture))
            first, second = found["images"][0]["classes"][:2]
            if first["probability"] - second["probability"] < 0.05:
                continue
            code = re.sub(r"^    ", "", lines, flags=re.M)
            printed = subprocess.run([sys.executable, "-c", code], cwd=self.dir, capture_output=True, text=True)
            self.assertEqual(printed.stdout.strip(), first["name"], printed.stderr)
            clear.add(first["name"])
            if len(clear) == 3:
                return
        self.assertGreater(len(clear), 1, "several classes, or this test shows nothing")


if __name__ == "__main__":
    unittest.main()
