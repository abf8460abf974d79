// Sources of images: each decoder turns what people download (or a seed) into splits of uint8 NHWC
// pixels, or float32 values, and int32 labels. A split is read in ranges of rows, so that a source
// larger than memory (synthetic) needs none.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace convoy {

/// Images of one split; `read` fills images [rows, height, width, channels], as bytes, and labels
/// [rows] with rows [first, first + rows).
struct Split {
    std::string name;  ///< "train" or "test"
    int64_t images = 0;
    int height = 0, width = 0, channels = 0;
    std::function<void(int64_t first, int64_t rows, uint8_t* images, int32_t* labels)> read;
    DType type = DType::u8;  ///< of a pixel's channel; f32: a number that is taken as it is

    int64_t image_bytes() const { return int64_t(height) * width * channels * int64_t(size_of(type)); }
};

struct Source {
    std::vector<Split> splits;               ///< the training split first
    std::vector<std::string> class_names;    ///< [classes]
    std::vector<std::string> files, sha256;  ///< provenance: file names without folder, and their SHA-256
    std::string checksum = "unknown";        ///< "official", "differs" or "unknown"
    std::vector<std::string> warnings;       ///< one line each, for stderr
};

/// A split whose pixels [n, height, width, channels] and labels [n] are in memory.
Split split_in_memory(std::string name, int height, int width, int channels, std::vector<uint8_t> images,
                      std::vector<int32_t> labels);

/// CIFAR-10 from the official cifar-10-binary.tar.gz or cifar-10-python.tar.gz, or from the folder
/// unpacked from it. `limit_per_file` > 0 takes only the first images of each batch. A wrong size,
/// a label above 9, a missing or truncated member is Exit::bad_input.
Source decode_cifar10(const std::string& from, int64_t limit_per_file);

/// CIFAR-100, likewise, with its 100 classes or, `coarse`, their 20 superclasses.
Source decode_cifar100(const std::string& from, int64_t limit_per_file, bool coarse);

/// MNIST, Fashion-MNIST and others of the same four IDX files, gzipped or not, in folder `from`;
/// one channel. `class_names` empty means "0" to "9". Errors as above.
Source decode_idx(const std::string& from, const std::vector<std::string>& class_names);

/// A learnable made-up problem: image i belongs to class i % classes and is that class's smooth
/// pattern plus noise. Every byte is a function of the arguments alone, on any machine.
struct SyntheticShape {
    int64_t images = 0, test_images = 0;
    int height = 32, width = 32, channels = 3, classes = 10;
    uint64_t seed = 0;
};
Source make_synthetic(const SyntheticShape& shape);

/// As many vectors (f32) of independent standard normal numbers, of classes drawn at random: there
/// is nothing to learn.
Source make_normal(const SyntheticShape& shape);

}  // namespace convoy
