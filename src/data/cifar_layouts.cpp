#include "data/cifar_layouts.h"

#include <algorithm>

namespace convoy {
namespace {

std::vector<std::string> batches_of_five(const std::string& ending) {
    std::vector<std::string> names;
    for (const char number : std::string("12345")) names.push_back(std::string("data_batch_") + number + ending);
    return names;
}

}  // namespace

bool CifarLayout::has(const std::string& member) const {
    return member == test || member == names || std::find(train.begin(), train.end(), member) != train.end();
}

size_t CifarLayout::most_bytes(const std::string& member) const {
    constexpr size_t most_names_bytes = 1 << 16;
    if (member == names) return most_names_bytes;
    // Python 3 writes a pixel as up to two bytes. Each image also has a file name and labels.
    const size_t images = images_of(member);
    return pickled() ? images * (2 * image_bytes + 256) + 4096 : images * record_bytes();
}

std::vector<CifarLayout> cifar10_layouts() {
    return {{.title = "CIFAR-10's binary version",
             .archive = "cifar-10-binary.tar.gz",
             .md5 = "c32a1d4ab5d03f1284b67883e8d87530",
             .folder = "cifar-10-batches-bin",
             .train = batches_of_five(".bin"),
             .test = "test_batch.bin",
             .names = "batches.meta.txt",
             .train_images = 10'000,
             .test_images = 10'000,
             .classes = 10,
             .label_bytes = 1},
            {.title = "CIFAR-10's Python version",
             .archive = "cifar-10-python.tar.gz",
             .md5 = "c58f30108f718f92721af3b95e74349a",
             .folder = "cifar-10-batches-py",
             .train = batches_of_five(""),
             .test = "test_batch",
             .names = "batches.meta",
             .train_images = 10'000,
             .test_images = 10'000,
             .classes = 10,
             .labels = "labels",
             .class_names = "label_names"}};
}

std::vector<CifarLayout> cifar100_layouts(bool coarse) {
    const std::string kind = coarse ? "coarse" : "fine";
    return {{.title = "CIFAR-100's binary version",
             .archive = "cifar-100-binary.tar.gz",
             .md5 = "03b5dce01913d631647c71ecec9e9cb8",
             .folder = "cifar-100-binary",
             .train = {"train.bin"},
             .test = "test.bin",
             .names = kind + "_label_names.txt",
             .train_images = 50'000,
             .test_images = 10'000,
             .classes = coarse ? 20 : 100,
             .label_bytes = 2,
             .label_at = coarse ? size_t(0) : 1},
            {.title = "CIFAR-100's Python version",
             .archive = "cifar-100-python.tar.gz",
             .md5 = "eb9058c3a382ffc7106e4002c42a8d85",
             .folder = "cifar-100-python",
             .train = {"train"},
             .test = "test",
             .names = "meta",
             .train_images = 50'000,
             .test_images = 10'000,
             .classes = coarse ? 20 : 100,
             .labels = kind + "_labels",
             .class_names = kind + "_label_names"}};
}

}  // namespace convoy
