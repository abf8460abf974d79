"""Models that Convoy trained and exported as ONNX pass onnx.checker, and have the same logits in onnxruntime:
`make test-interchange`."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
from common import Case, convoy


class Onnx(Case):
    def session(self, path):
        onnx.checker.check_model(onnx.load(path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def check(self, model, data, *options):
        run = f"{self.dir}/{model}"
        convoy("train", "--model", model, "--data", data, "--lr", 0.01, "--batch-size", 8, "--max-steps", 3,
               "--eval-images", 8, "--checkpoint-every", "none", "--output", run, *options)  # fmt: skip
        file = f"{run}/model.h5"
        ours = self.logits(file, data)
        convoy("export", "--model-file", file, "--to", f"{run}/model.onnx")
        session = self.session(f"{run}/model.onnx")
        facts = session.get_modelmeta().custom_metadata_map
        self.assertEqual(len(json.loads(facts["class_names"])), 10)
        pixels = self.images(data)
        mean, stddev = (np.reshape(json.loads(facts[key]), (-1, 1, 1)) for key in ("mean", "stddev"))
        vectors = pixels.dtype == np.float32
        x = pixels if vectors else ((pixels / 255.0 - mean) / stddev).astype(np.float32)
        self.assert_close(ours, session.run(["logits"], {"images": x})[0], model)
        self.assertEqual(session.run(["logits"], {"images": x[:1]})[0].shape, (1, 10), "the batch is dynamic")
        if vectors:
            return
        convoy("export", "--model-file", file, "--to", f"{run}/pixels.onnx", "--raw-pixels")
        theirs = self.session(f"{run}/pixels.onnx").run(["logits"], {"pixels": pixels})[0]
        self.assert_close(ours, theirs, f"{model} --raw-pixels")

    def test_models_of_32_pixels(self):
        for model in ("resnet18", "resnet34", "resnet50", "pyramidnet", "pyramidnet110", "airbench94", "airbench94-muon"):
            with self.subTest(model):
                self.check(model, self.synthetic("32x32x3"))

    def test_resnets_with_the_imagenet_stem(self):
        for model in ("resnet18", "resnet50", "resnet101", "resnet152"):
            with self.subTest(model):
                self.check(model, self.synthetic("96x96x3"))

    def test_grey_images_and_vectors(self):
        self.check("mnist-conv", self.synthetic("28x28x1"))
        self.check("mnist-linear", self.synthetic("28x28x1"))
        self.check("linear", self.synthetic("1x1x10", "--kind", "normal"))


if __name__ == "__main__":
    unittest.main()
