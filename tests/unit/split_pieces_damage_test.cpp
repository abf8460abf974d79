// Pieces of files that were removed, cut off or hold bad rows; and of more files than stay open.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "data/shard.h"
#include "data/shard_checks.h"
#include "data/split_pieces.h"
#include "tests/support/file_calls.h"
#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class SplitPiecesDamage : public testing::Test {
protected:
    /// Makes 301 images of 64x64x3 in two shards. The first has 150 rows in two chunks of 75.
    void make_images() { write_data_set(make_synthetic({301, 4, 64, 64, 3, 10, 1}), data_, 2, false); }
    std::string problem(const SplitPieces& pieces, size_t i, const std::vector<std::string>& words) const {
        SplitPieces::Scratch scratch;
        std::vector<uint8_t> pixels(pieces.all()[i].bytes);
        return problem_of_error(Exit::bad_input, words, [&] { pieces.read(i, pixels.data(), scratch); });
    }
    /// Returns SplitReader's message about the split.
    std::string by_hdf5() const {
        const SplitReader reader(data_, "train");
        std::vector<uint8_t> pixels(reader.info().image_bytes());
        std::vector<int32_t> labels(size_t(reader.info().images));
        try {
            reader.read(0, reader.info().images, pixels.data(), labels.data());
        } catch (const Error& error) {
            return error.what();
        }
        return "nothing";
    }
    /// Writes `values` into data set `name` of the first shard, from `row` on.
    template <class T>
    void overwrite(const std::string& name, hid_t type, hsize_t row, const std::vector<T>& values, hsize_t rows) const {
        const h5::Handle file(H5Fopen(first_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        h5::write_rows(h5::open_dataset(file, name, first_), type, row, rows, values.data(), first_);
    }

    TempDir dir_;
    std::string data_ = dir_.path("set"), first_ = data_ + "/train-00000-of-00002.h5";
};

TEST_F(SplitPiecesDamage, CutOffBeforeTheFirstReadIsNamed) {
    make_images();
    const SplitPieces pieces(SplitReader(data_, "train"));
    const auto bytes = fs::file_size(first_);
    fs::resize_file(first_, bytes - 1);
    EXPECT_EQ("", problem(pieces, 1,
                          {first_ + ": chunk 1 of /images (rows 75 to 149) has " + std::to_string(bytes - 1),
                           std::to_string(bytes), "truncated"}));
}

TEST_F(SplitPiecesDamage, CutOffWhileItIsOpenIsNamed) {
    make_images();
    const SplitPieces pieces(SplitReader(data_, "train"));
    SplitPieces::Scratch scratch;
    std::vector<uint8_t> pixels(pieces.all()[0].bytes);
    pieces.read(0, pixels.data(), scratch);
    fs::resize_file(first_, 75 * 64 * 64 * 3);  // no second chunk fits
    EXPECT_EQ("", problem(pieces, 1, {first_ + ": chunk 1 of /images (rows 75 to 149) is shorter", "truncated"}));
}

TEST_F(SplitPiecesDamage, RemovedFilesAreNamed) {
    make_images();
    const SplitPieces pieces(SplitReader(data_, "train"));
    fs::remove_all(data_);
    EXPECT_EQ("", problem(pieces, 0, {first_ + ": chunk 0 of /images (rows 0 to 74)", "No such file", "moved"}));
}

TEST_F(SplitPiecesDamage, FailingReadsAreNamed) {
    make_images();
    const SplitPieces pieces(SplitReader(data_, "train"));
    const BadReads reads(0, EIO);
    EXPECT_EQ("", problem(pieces, 1, {first_ + ": chunk 1 of /images (rows 75 to 149)", "Input/output error"}));
}

// The message is SplitReader's.
TEST_F(SplitPiecesDamage, NumbersThatAreNotFiniteAreNamed) {
    for (const float bad : {NAN, -INFINITY, INFINITY}) {
        write_data_set(make_normal({60, 4, 1, 1, 10, 3, 1}), data_, 2, true);
        std::vector<float> row(10, 1.5f);
        row[7] = bad;
        overwrite("/images", H5T_NATIVE_FLOAT, 13, row, 1);
        const SplitPieces pieces(SplitReader(data_, "train"));
        EXPECT_EQ("", problem(pieces, 0, {first_ + ": row 13 of /images holds a number that is not finite"}));
        EXPECT_EQ("", problem(pieces, 0, {by_hdf5()}));
    }
}

// Messages name the row within the shard, whichever rows were read.
TEST(SplitPiecesDamageOfRows, ThatAreNotFiniteAreNamedByTheirPlaceInTheShard) {
    float rows[4][2] = {{1, 2}, {3, 4}, {5, INFINITY}, {NAN, 8}};
    const auto* bytes = reinterpret_cast<const uint8_t*>(rows);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"shard.h5: row 102 of /images"},
                                   [&] { check_finite(bytes, 100, 4, sizeof rows[0], "shard.h5"); }));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"shard.h5: row 7 of /images"}, [&] {
                  check_finite(bytes + sizeof rows[0] * 3, 7, 1, sizeof rows[0], "shard.h5");
              }));
    EXPECT_NO_THROW(check_finite(bytes, 100, 2, sizeof rows[0], "shard.h5"));
}

TEST_F(SplitPiecesDamage, FilesThatCannotBeDecodedAreNamed) {
    make_ragged(data_, ImageLayout::jpeg);
    std::vector<int64_t> offsets(22);
    {
        const h5::Handle file = h5::open(first_);
        h5::read_rows(h5::open_dataset(file, "/offset", first_), H5T_NATIVE_INT64, 0, 22, offsets.data(), first_);
    }
    overwrite("/pixels", H5T_NATIVE_UINT8, hsize_t(offsets[9]), std::vector<uint8_t>{1, 2, 3}, 3);
    const SplitPieces pieces(SplitReader(data_, "train"));
    EXPECT_EQ("", problem(pieces, 0, {first_ + ": row 9 of /pixels cannot be decoded: is not JPEG, PNG"}));
    EXPECT_EQ("", problem(pieces, 0, {by_hdf5()}));
}

TEST_F(SplitPiecesDamage, FilesOfAnotherSizeThanTheyClaimAreNamed) {
    make_ragged(data_, ImageLayout::jpeg);
    overwrite("/height", H5T_NATIVE_INT32, 9, std::vector<int32_t>{11}, 1);
    const SplitPieces pieces(SplitReader(data_, "train"));
    EXPECT_EQ("", problem(pieces, 0, {first_ + ": row 9 is a file of ", "claims another size"}));
    EXPECT_EQ("", problem(pieces, 0, {by_hdf5()}));
}

TEST_F(SplitPiecesDamage, OfMoreShardsThanAreKeptOpenAreReadAlike) {
    constexpr int shards = 200;
    write_data_set(make_synthetic({3 * shards, 4, 4, 4, 3, 10, 1}), data_, shards, false);
    auto reader = std::make_unique<SplitReader>(data_, "train");
    std::vector<uint8_t> wanted(reader->info().image_bytes()), got(wanted.size());
    std::vector<int32_t> labels(3 * shards);
    reader->read(0, 3 * shards, wanted.data(), labels.data());
    const SplitPieces pieces(*reader);
    reader.reset();
    const auto open_shards = [&] {
        int count = 0;
        for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
            std::error_code gone;
            count += fs::read_symlink(entry.path(), gone).string().starts_with(real_path(data_) + "/");
        }
        return count;
    };
    ASSERT_EQ(pieces.all().size(), size_t(shards));
    SplitPieces::Scratch scratch;
    for (size_t k = 0; k < 2 * shards; ++k) {
        const size_t i = k * 7 % shards;
        pieces.read(i, got.data() + i * 3 * 48, scratch);
        EXPECT_LE(open_shards(), 128);
    }
    EXPECT_EQ(open_shards(), 128);
    EXPECT_EQ(got, wanted);
}

}  // namespace
}  // namespace convoy::test
