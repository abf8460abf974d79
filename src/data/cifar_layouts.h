// Names and contents of the members of CIFAR's four archives.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// The layout of one published archive.
struct CifarLayout {
    static constexpr int image_bytes = 3072;

    std::string title, archive, md5, folder;
    std::vector<std::string> train;  ///< members, in order
    std::string test, names;         ///< members
    size_t train_images, test_images;
    int classes;
    // Binary: a record is `label_bytes` bytes, then an image. The label is byte `label_at`.
    size_t label_bytes = 0, label_at = 0;
    // Pickled: the keys of the labels and of the class names.
    std::string labels{}, class_names{};

    bool pickled() const { return !labels.empty(); }
    size_t record_bytes() const { return label_bytes + image_bytes; }
    bool has(const std::string& member) const;
    size_t images_of(const std::string& member) const { return member == test ? test_images : train_images; }
    size_t most_bytes(const std::string& member) const;  ///< limit for the size of a member
};

/// Returns the layouts of the binary and the Python version.
std::vector<CifarLayout> cifar10_layouts();
/// Does the same for CIFAR-100. `coarse`: labels are its 20 superclasses, not its 100 classes.
std::vector<CifarLayout> cifar100_layouts(bool coarse);

}  // namespace convoy
