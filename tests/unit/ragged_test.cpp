// Shards of images that differ in size: any range reads as it was written. Damaged and hostile
// shards are refused before memory is allocated for what they claim.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands.h"
#include "data/digest.h"
#include "data/shard.h"
#include "supply/data_set.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Returns pixels [bytes] and labels of rows [first, first + rows), read at once.
std::pair<std::vector<uint8_t>, std::vector<int32_t>> rows_of(const SplitReader& reader, int64_t first, int64_t rows) {
    const std::vector<ImagePlace> places = reader.places();
    const auto offset = [&](int64_t i) {
        return i < reader.info().images ? places[i].offset : reader.info().pixel_bytes;
    };
    std::vector<uint8_t> pixels(size_t(offset(first + rows) - offset(first)));
    std::vector<int32_t> labels(static_cast<size_t>(rows));
    reader.read(first, rows, pixels.data(), labels.data());
    return {pixels, labels};
}

class Ragged : public testing::TestWithParam<ImageLayout> {
protected:
    void SetUp() override { make_ragged(data_, GetParam()); }

    /// Returns image i as stored in the set.
    static std::vector<uint8_t> expected(int i) {
        RgbImage image = ragged_image(i);
        if (GetParam() == ImageLayout::jpeg) decode_image(bytes_of(jpeg_of(image)), image);
        return image.pixels;
    }
    std::string problem(const std::vector<std::string>& words) const {
        return problem_of_error(Exit::bad_input, words, [&] {
            for (const char* split : {"train", "test"}) {
                const SplitReader reader(data_, split);
                rows_of(reader, 0, reader.info().images);
            }
        });
    }
    std::string verified() const {
        testing::internal::CaptureStdout();
        try {
            verify({data_});
        } catch (const Error& error) {
            testing::internal::GetCapturedStdout();
            return error.what();
        }
        return testing::internal::GetCapturedStdout();
    }
    void accept_into_manifest() const {
        auto json = nlohmann::json::parse(read_file(data_ + "/manifest.json"));
        for (auto& shard : json["shards"]) {
            const std::string path = data_ + "/" + shard["file"].get<std::string>();
            shard["bytes"] = fs::file_size(path);
            shard["sha256"] = digest_of_file(Digest::Kind::sha256, path);
        }
        write_file(data_ + "/manifest.json", json.dump());
    }
    /// Replaces one number of a column of the first shard, whose refusal must hold `words`.
    std::string with(const std::string& name, int64_t row, int64_t value, const std::vector<std::string>& words) const {
        const std::string whole = read_file(first_);
        {
            const h5::Handle file(H5Fopen(first_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
            h5::write_rows(h5::open_dataset(file, name, first_), H5T_NATIVE_INT64, hsize_t(row), 1, &value, first_);
        }
        accept_into_manifest();
        const std::string wrong = problem(words);
        write_file(first_, whole);
        accept_into_manifest();
        return wrong;
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), first_ = data_ + "/train-00000-of-00002.h5";
};

TEST_P(Ragged, AnyRangeIsWhatWasWritten) {
    const SplitReader train(data_, "train"), test(data_, "test");
    const std::vector<ImagePlace> places = train.places();
    ASSERT_EQ(places.size(), 40u);
    int64_t offset = 0;
    for (int i = 0; i < 40; ++i) {
        EXPECT_EQ(places[i].offset, offset);
        EXPECT_EQ(places[i].height, 8 + i * 7 % 38);
        EXPECT_EQ(places[i].width, 8 + i * 11 % 38);
        offset += int64_t(8 + i * 7 % 38) * (8 + i * 11 % 38) * 3;
    }
    const SplitInfo& info = train.info();
    EXPECT_TRUE(info.ragged);
    EXPECT_EQ(std::make_tuple(info.images, info.height, info.width, info.channels, info.classes),
              std::make_tuple(40, 45, 45, 3, 3));
    EXPECT_EQ(info.image_bytes(), size_t(offset));
    for (const auto& [first, rows] : {std::pair(0, 40), {0, 1}, {20, 2}, {7, 30}, {39, 1}, {40, 0}}) {
        const auto [pixels, labels] = rows_of(train, first, rows);
        std::vector<uint8_t> wanted;
        for (int i = first; i < first + rows; ++i) {
            const std::vector<uint8_t> image = expected(i);
            wanted.insert(wanted.end(), image.begin(), image.end());
            EXPECT_EQ(labels[i - first], i % 3);
        }
        EXPECT_TRUE(pixels == wanted) << first << ", " << rows;
    }
    EXPECT_EQ(rows_of(test, 12, 1).first, expected(112));
    check_same_shape(info, test.info(), data_);
}

// --eval-images reads the first images like this.
TEST_P(Ragged, TheFirstImagesHaveTheirBytes) {
    const SplitReader reader(data_, "train");
    size_t bytes = 0;
    for (int i = 0; i < 40; ++i) {
        if (i > 0) {
            EXPECT_EQ(first_images(reader, i).image_bytes(), bytes) << i;
            EXPECT_EQ(first_images(reader, i).images, i);
        }
        bytes += expected(i).size();
    }
    for (const int64_t all : {0, 40, 41}) EXPECT_EQ(first_images(reader, all).image_bytes(), bytes) << all;
}

// Mean and deviation computed over all pixels of the training images.
TEST_P(Ragged, StatisticsAreThoseOfAllPixels) {
    double sum = 0, squares = 0, count = 0;
    for (int i = 0; i < 40; ++i) {
        const std::vector<uint8_t> image = expected(i);
        for (size_t at = 1; at < image.size(); at += 3, ++count) {
            sum += image[at];
            squares += double(image[at]) * image[at];
        }
    }
    const SplitInfo info = SplitReader(data_, "train").info();
    const double mean = sum / count;
    EXPECT_NEAR(info.mean[1], mean / 255, 1e-6);  // floats, computed from sums in double
    EXPECT_NEAR(info.stddev[1], std::sqrt(squares / count - mean * mean) / 255, 1e-6);
    uintmax_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(data_))
        if (entry.path().extension() == ".h5") bytes += fs::file_size(entry.path());
    EXPECT_NE(verified().find("ok, 3 files, " + std::to_string(bytes) + " bytes, every checksum matches"),
              std::string::npos)
        << verified();
}

TEST_P(Ragged, IsDeclaredForOtherPrograms) {
    if (run("command -v h5dump").code != 0) GTEST_SKIP() << "needs h5dump";
    const std::string header = run("h5dump -p -H " + first_).out;
    for (const char* part : {"DATASET \"pixels\"", "DATASET \"offset\"", "CHUNKED ( ", "CHECKSUM FLETCHER32",
                             "ATTRIBUTE \"codec\"", "H5T_STD_I64LE", "( 22 )"})
        EXPECT_NE(header.find(part), std::string::npos) << part << " is not in\n" << header;
}

// HDF5 reads a whole chunk for one row: large chunks would be slow to shuffle, small ones slow to
// read.
TEST_P(Ragged, PixelsAreInChunksOfTwoMiB) {
    const std::string path = dir_.path("large.h5");
    ImageShardWriter writer(path, GetParam());
    const RgbImage image = pattern(1000, 1000, 1);
    const std::string file(3 << 20, 'x');  // a file of 3 MiB
    for (int i = 0; i < 3; ++i) writer.add(image, bytes_of(file), 0);
    Source source;
    source.class_names = source.files = source.sha256 = {"x"};
    writer.finish({"", "train", 0, 1, 0}, source, [](hid_t) {});
    const h5::Extent pixels = h5::extent(h5::open(path), "/pixels", path);
    EXPECT_EQ(pixels.chunk_bytes, hsize_t(2) << 20);
    EXPECT_EQ(pixels.dims.at(0), GetParam() == ImageLayout::raw ? 9'000'000u : 9u << 20);
    EXPECT_LT(pixels.stored_bytes, pixels.dims[0] + (3 << 20)) << "one chunk may be empty in part";
}

TEST_P(Ragged, NoBitFlipIsSilent) {
    const auto read = [&] {  // closed at once, because HDF5 would answer from its cache
        const SplitReader reader(data_, "train");
        return std::pair(rows_of(reader, 0, 40), reader.places());
    };
    const auto [wanted, places] = read();
    const std::string whole = read_file(first_);
    std::mt19937 random(5);
    int noticed = 0;
    for (int trial = 0; trial < 200; ++trial) {
        const size_t at = random() % whole.size();
        std::string damaged = whole;
        damaged[at] ^= char(1 << random() % 8);
        write_file(first_, damaged);
        try {
            const auto [rows, now] = read();
            EXPECT_EQ(rows, wanted) << "differs silently after a flip in byte " << at;
            EXPECT_TRUE(std::equal(places.begin(), places.end(), now.begin(), now.end(), [](auto a, auto b) {
                return a.offset == b.offset && a.height == b.height && a.width == b.width;
            })) << at;
        } catch (const Error& error) {
            EXPECT_EQ(error.code, Exit::bad_input);
            EXPECT_NE(std::string(error.what()).find(first_), std::string::npos) << error.what();
            ++noticed;
        }
        EXPECT_NE(verified().find(first_), std::string::npos) << at;
    }
    EXPECT_GT(noticed, 50);
}

TEST_P(Ragged, NoTruncationIsSilent) {
    const std::string whole = read_file(first_);
    std::mt19937 random(6);
    for (int trial = 0; trial < 30; ++trial) {
        write_file(first_, whole.substr(0, random() % whole.size()));
        if (trial % 2) accept_into_manifest();  // even if the manifest agrees
        EXPECT_EQ("", problem({first_}));
    }
}

TEST_P(Ragged, ContradictionsAreNamed) {
    EXPECT_EQ("", with("/offset", 0, 5, {first_, "/offset"}));
    EXPECT_EQ("", with("/offset", 21, int64_t(1) << 60, {first_, "/offset"}));
    EXPECT_EQ("", with("/offset", 3, -1, {first_, "row 2"}));
    EXPECT_EQ("", with("/offset", 3, int64_t(1) << 62, {first_, "row 2"}));
    EXPECT_EQ("", with("/offset", 3, (int64_t(1) << 53) + (1 << 20), {first_, "row 2", "of /pixels"}));
    EXPECT_EQ("", with("/height", 4, 0, {first_, "row 4", "claims 0x"}));
    EXPECT_EQ("", with("/width", 4, -7, {first_, "row 4"}));
    EXPECT_EQ("", with("/width", 4, 16'385, {first_, "row 4", "16385"}));
    EXPECT_EQ("", with("/width", 4, 16'384, {first_, "row 4", "claims 36x16384"}));
    EXPECT_EQ("", with("/height", 4, 9, {first_, "row 4"}));
    EXPECT_EQ("", with("/width", 4, 9, {first_, "row 4"}));
    EXPECT_EQ("", with("/labels", 4, 3, {first_, "row 4 of /labels is 3"}));
}

// 16384 pixels a side are allowed, and 100 million in total.
TEST(RaggedRows, AreOfAHundredMillionPixelsAtMost) {
    const TempDir dir;
    const std::string path = dir.path("large.h5"), content(1 << 20, 'x');
    for (const auto& [height, allowed] : {std::pair(6103, true), {6104, false}}) {  // times 16384: 99,991,552
        {
            ImageShardWriter writer(path, ImageLayout::jpeg);
            writer.add({.height = height, .width = 16'384}, bytes_of(content), 0);
            Source source;
            source.class_names = source.files = source.sha256 = {"x"};
            writer.finish({"", "train", 0, 1, 0}, source, [](hid_t) {});
        }
        const auto open = [&] { RaggedRows(h5::open(path), "jpeg", path); };
        if (allowed)
            EXPECT_NO_THROW(open());
        else
            EXPECT_EQ("", problem_of_error(Exit::bad_input, {path, "row 0", "claims 6104x16384 pixels"}, open));
    }
}

TEST_P(Ragged, OtherCodecsAndMixturesAreRefused) {
    const auto change = [&](const auto& edit, const std::vector<std::string>& words) {
        const std::string whole = read_file(first_);
        {
            const h5::Handle file(H5Fopen(first_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
            edit(file);
        }
        accept_into_manifest();
        const std::string wrong = problem(words);
        write_file(first_, whole);
        return wrong;
    };
    EXPECT_EQ("", change([](hid_t f) { h5::set_attribute(f, "codec", "webp"); }, {first_, "'webp'", "raw or jpeg"}));
    EXPECT_EQ("", change([](hid_t f) { H5Adelete(f, "codec"); }, {first_, "codec", "missing"}));
    EXPECT_EQ("", change([](hid_t f) { H5Ldelete(f, "offset", H5P_DEFAULT); }, {first_, "/offset"}));
    const std::string other = dir_.path("other");
    make_ragged(other, GetParam() == ImageLayout::raw ? ImageLayout::jpeg : ImageLayout::raw);
    fs::copy_file(other + "/train-00001-of-00002.h5", data_ + "/train-00001-of-00002.h5",
                  fs::copy_options::overwrite_existing);
    accept_into_manifest();
    EXPECT_EQ("", problem({"train-00001-of-00002.h5", "differ"}));
}

TEST_P(Ragged, NeedsASizeToBeTrainedOn) {
    for (const char* command : {"train --model resnet18 --batch-size 4 --data ", "demo --model resnet18 --data ",
                                "bench --model resnet18 --batch-size 4 --data "})
        EXPECT_EQ("", refusal(convoy_alone(command + data_), Exit::usage, {data_, "many sizes", "--image-size 224"}))
            << command;
}

INSTANTIATE_TEST_SUITE_P(Codecs, Ragged, testing::Values(ImageLayout::raw, ImageLayout::jpeg),
                         [](const auto& layout) { return layout.param == ImageLayout::raw ? "raw" : "jpeg"; });

}  // namespace
}  // namespace convoy::test
