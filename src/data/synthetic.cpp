// Generates data sets for scaling runs and tests. Images use integer arithmetic only, and random
// numbers are Philox of (seed, purpose, sample, element): the same arguments give the same bytes on
// every machine.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/philox.h"
#include "data/decode.h"
#include "data/digest.h"

namespace convoy {
namespace {

// The fourth word of Philox's counter, by purpose. The values differ from those of enum Purpose, so
// that a data set and a run with the same seed share no random numbers.
constexpr uint32_t purpose_pattern = 0x70617474, purpose_train_noise = 0x7472616e, purpose_test_noise = 0x74657374;
constexpr uint32_t purpose_train_vector = 0x74727665, purpose_test_vector = 0x74657665, purpose_class = 0x636c6173;
constexpr int coarse = 4;              // a class's pattern is a coarse x coarse grid of levels in each channel
constexpr int pattern_amplitude = 48;  // levels are uniform within 128 ± 48
// A sum of four random bytes has a deviation of 148; 148 * 69 / 256 is about 40 grey levels.
constexpr int noise_times_256 = 69;

/// Returns the levels of a class's pattern, [coarse, coarse, channels].
std::vector<int> pattern_of(const SyntheticShape& shape, uint32_t label) {
    std::vector<int> levels(size_t(coarse * coarse) * size_t(shape.channels));
    for (size_t i = 0; i < levels.size(); ++i)
        levels[i] = 128 - pattern_amplitude +
                    int(uniform_below(philox(shape.seed, label, uint32_t(i), 0, purpose_pattern).word[0],
                                      2 * pattern_amplitude + 1));
    return levels;
}

void make_image(const SyntheticShape& shape, uint32_t row, uint32_t purpose, const std::vector<int>& pattern,
                uint8_t* to) {
    const int channels = shape.channels;
    uint32_t element = 0;
    Random4 random{};
    for (int y = 0; y < shape.height; ++y)
        for (int x = 0; x < shape.width; ++x) {
            const int cell = (y * coarse / shape.height) * coarse + x * coarse / shape.width;
            for (int c = 0; c < channels; ++c, ++element) {
                if (element % 4 == 0) random = philox(shape.seed, row, element / 4, 0, purpose);
                const uint32_t word = random.word[element % 4];
                const int sum = int(word & 255) + int(word >> 8 & 255) + int(word >> 16 & 255) + int(word >> 24);
                to[element] =
                    uint8_t(std::clamp(pattern[cell * channels + c] + (sum - 510) * noise_times_256 / 256, 0, 255));
            }
        }
}

Split make_split(const SyntheticShape& shape, const std::string& name, int64_t images, uint32_t purpose) {
    Split split{name, images, shape.height, shape.width, shape.channels, nullptr};
    split.read = [shape, purpose, bytes = split.image_bytes()](int64_t first, int64_t rows, uint8_t* to,
                                                               int32_t* labels) {
        for (int64_t i = 0; i < rows; ++i) {
            labels[i] = int32_t((first + i) % shape.classes);
            make_image(shape, uint32_t(first + i), purpose, pattern_of(shape, uint32_t(labels[i])), to + i * bytes);
        }
    };
    return split;
}

/// Generates row `row` of random vectors, [elements].
void make_vector(uint64_t seed, uint32_t row, uint32_t purpose, uint32_t elements, uint8_t* to) {
    for (uint32_t i = 0; i < elements; i += 4) {
        const Random4 random = philox(seed, row, i / 4, 0, purpose);
        float draw[4];
        normal2(random.word[0], random.word[1], draw);
        normal2(random.word[2], random.word[3], draw + 2);
        std::memcpy(to + i * sizeof(float), draw, std::min(4u, elements - i) * sizeof(float));
    }
}

Split make_vectors(const SyntheticShape& shape, const std::string& name, int64_t images, uint32_t purpose) {
    Split split{name, images, shape.height, shape.width, shape.channels, nullptr, DType::f32};
    split.read = [shape, purpose, bytes = split.image_bytes()](int64_t first, int64_t rows, uint8_t* to,
                                                               int32_t* labels) {
        for (int64_t i = 0; i < rows; ++i) {
            const auto row = uint32_t(first + i);
            labels[i] = int32_t(
                uniform_below(philox(shape.seed, row, purpose, 0, purpose_class).word[0], uint32_t(shape.classes)));
            make_vector(shape.seed, row, purpose, uint32_t(size_t(bytes) / sizeof(float)), to + i * bytes);
        }
    };
    return split;
}

/// Returns a source of two splits. Its provenance is a text of the arguments that reproduce it.
Source source_of(const SyntheticShape& shape, const std::string& kind, Split train, Split test) {
    require(shape.images > 0 && shape.classes > 0 && shape.height > 0 && shape.width > 0 && shape.channels > 0,
            "a synthetic data set has images");
    Source source;
    source.splits.push_back(std::move(train));
    if (shape.test_images > 0) source.splits.push_back(std::move(test));
    for (int i = 0; i < shape.classes; ++i) source.class_names.push_back("class " + std::to_string(i));
    const std::string recipe = "synthetic" + kind + " --images " + std::to_string(shape.images) + " --test-images " +
                               std::to_string(shape.test_images) + " --size " + std::to_string(shape.height) + "x" +
                               std::to_string(shape.width) + "x" + std::to_string(shape.channels) + " --classes " +
                               std::to_string(shape.classes) + " --seed " + std::to_string(shape.seed);
    source.files = {recipe};
    source.sha256 = {digest_of(Digest::Kind::sha256, recipe.data(), recipe.size())};
    return source;
}

}  // namespace

Source make_synthetic(const SyntheticShape& shape) {
    return source_of(shape, "", make_split(shape, "train", shape.images, purpose_train_noise),
                     make_split(shape, "test", shape.test_images, purpose_test_noise));
}

Source make_normal(const SyntheticShape& shape) {
    return source_of(shape, " --kind normal", make_vectors(shape, "train", shape.images, purpose_train_vector),
                     make_vectors(shape, "test", shape.test_images, purpose_test_vector));
}

}  // namespace convoy
