// IDX files that are each sound, but do not belong together.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/decode.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

std::string idx(const std::vector<uint32_t>& dims) {
    std::string bytes{0, 0, 8, char(dims.size())};
    size_t elements = 1;
    for (const uint32_t dim : dims) {
        for (int shift = 24; shift >= 0; shift -= 8) bytes += char(dim >> shift & 255);
        elements *= dim;
    }
    return bytes + std::string(elements, '\1');
}

TEST(DecodeIdx, TrainingAndTestImagesHaveOneSize) {
    const TempDir dir;
    const auto decoded = [&](uint32_t height, uint32_t width) {
        write_file(dir.path("train-images-idx3-ubyte"), idx({3, 6, 5}));
        write_file(dir.path("train-labels-idx1-ubyte"), idx({3}));
        write_file(dir.path("t10k-images-idx3-ubyte"), idx({2, height, width}));
        write_file(dir.path("t10k-labels-idx1-ubyte"), idx({2}));
        return decode_idx(dir.path(), {});
    };
    const Source source = decoded(6, 5);
    ASSERT_EQ(source.splits.size(), 2u);
    EXPECT_EQ(source.splits[0].images, 3);
    EXPECT_EQ(source.splits[1].images, 2);
    EXPECT_EQ(source.checksum, "unknown") << "not the official files";
    for (const auto& [height, width] : {std::pair{6u, 6u}, {7u, 5u}, {5u, 6u}})
        EXPECT_EQ("", problem_of_error(Exit::bad_input,
                                       {dir.path(), "6x5", std::to_string(height) + "x" + std::to_string(width),
                                        "different data sets"},
                                       [&, h = height, w = width] { decoded(h, w); }));
}

// 100 KB of gzipped zeros would take 100 MB of memory, and as much of the disk.
TEST(DecodeIdx, AFileThatUnpacksToManyTimesItsSizeIsRefused) {
    const TempDir dir;
    const auto put = [&](const std::string& name, const std::string& bytes) {
        write_file(dir.path(name), bytes);
        ASSERT_EQ(run("gzip -9 " + dir.path(name)).code, 0);
    };
    for (const auto& [stem, images] : {std::pair{"train", 400u}, {"t10k", 2u}}) {
        put(std::string(stem) + "-images-idx3-ubyte", idx({images, 512, 512}));
        put(std::string(stem) + "-labels-idx1-ubyte", idx({images}));
    }
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"train-images-idx3-ubyte.gz", "200 times its size", "unpack it"},
                                   [&] { decode_idx(dir.path(), {}); }));
    ASSERT_EQ(run("gunzip " + dir.path("train-images-idx3-ubyte.gz")).code, 0);
    EXPECT_EQ(decode_idx(dir.path(), {}).splits.at(0).images, 400) << "as the message advises";
    // A label takes five bytes of memory, and four in a shard.
    constexpr uint32_t images = 20u << 20;
    write_file(dir.path("train-images-idx3-ubyte"), idx({images, 1, 1}));
    std::filesystem::remove(dir.path("train-labels-idx1-ubyte.gz"));
    put("train-labels-idx1-ubyte", idx({images}));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"train-labels-idx1-ubyte.gz", "200 times its size"},
                                   [&] { decode_idx(dir.path(), {}); }));
}

}  // namespace
}  // namespace convoy::test
