"""cifar_halves.py CIFAR OUT [IMAGES]: writes CIFAR-10 as two sets of PNG files, for figures of fine-tuning.

CIFAR is the folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin. OUT/first has the classes airplane to
deer, OUT/second the classes dog to truck, each as SPLIT/CLASS/NUMBER.png, which `convoy convert imagefolder` reads.
IMAGES: number of training images per class (default: all 5,000). Test images are always all 1,000 per class."""

import pathlib
import sys

import numpy as np
from PIL import Image

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
HALVES = {"first": range(5), "second": range(5, 10)}


def read(files):
    """Returns (labels, images as u8 [n, 32, 32, 3]) of binary files, in their order."""
    rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    return rows[:, 0], rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def main():
    cifar, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
    splits = {"train": [cifar / f"data_batch_{i}.bin" for i in range(1, 6)], "test": [cifar / "test_batch.bin"]}
    for split, files in splits.items():
        labels, images = read(files)
        for half, classes in HALVES.items():
            for label in classes:
                folder = out / half / split / CLASSES[label]
                folder.mkdir(parents=True, exist_ok=True)
                chosen = np.flatnonzero(labels == label)[: most if split == "train" else None]
                for number, image in enumerate(chosen):
                    Image.fromarray(images[image]).save(folder / f"{number:05d}.png", compress_level=1)


if __name__ == "__main__":
    main()
