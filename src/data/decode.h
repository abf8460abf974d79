// Sources of images: each decoder turns published files (or a seed) into splits of uint8 NHWC
// pixels, or float32 values, and int32 labels. A split is read in ranges of rows, so a synthetic
// one may be larger than memory.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace convoy {

/// The images of one split. `read` copies rows [first, first + rows) to images [rows, height,
/// width, channels], as bytes, and to labels [rows].
struct Split {
    std::string name;  ///< "train" or "test"
    int64_t images = 0;
    int height = 0, width = 0, channels = 0;
    std::function<void(int64_t first, int64_t rows, uint8_t* images, int32_t* labels)> read;
    DType type = DType::u8;  ///< type of a channel; f32 values are not normalised

    int64_t image_bytes() const { return int64_t(height) * width * channels * int64_t(size_of(type)); }
};

struct Source {
    std::vector<Split> splits;               ///< the training split first
    std::vector<std::string> class_names;    ///< [classes]
    std::vector<std::string> files, sha256;  ///< provenance: file names without folder, and their SHA-256
    std::string checksum = "unknown";        ///< "official", "differs" or "unknown"
    std::vector<std::string> warnings;       ///< one line each, for stderr
};

/// Returns a split whose pixels [n, height, width, channels] and labels [n] are in memory.
Split split_in_memory(std::string name, int height, int width, int channels, std::vector<uint8_t> images,
                      std::vector<int32_t> labels);

/// Reads CIFAR-10 from the official cifar-10-binary.tar.gz or cifar-10-python.tar.gz, or from the
/// folder unpacked from one. `limit_per_file` > 0: only the first images of each batch. Throws
/// Exit::bad_input for a wrong size, a label above 9, or a missing or truncated member.
Source decode_cifar10(const std::string& from, int64_t limit_per_file);

/// Reads CIFAR-100 likewise. `coarse`: its 20 superclasses instead of its 100 classes.
Source decode_cifar100(const std::string& from, int64_t limit_per_file, bool coarse);

/// Reads MNIST, Fashion-MNIST and others with the same four IDX files, gzipped or not, in folder
/// `from`. Images have one channel. `class_names` empty: "0" to "9". Throws as decode_cifar10().
Source decode_idx(const std::string& from, const std::vector<std::string>& class_names);

/// Size and seed of a generated data set.
struct SyntheticShape {
    int64_t images = 0, test_images = 0;
    int height = 32, width = 32, channels = 3, classes = 10;
    uint64_t seed = 0;
};
/// Generates a data set that can be learned: image i has class i % classes, and is the smooth
/// pattern of that class plus noise. Every byte depends on the arguments alone, on any machine.
Source make_synthetic(const SyntheticShape& shape);

/// Generates vectors (f32) of independent standard normal numbers, with random classes: there is
/// nothing to learn.
Source make_normal(const SyntheticShape& shape);

}  // namespace convoy
