// Chunk addresses: each address holds the bytes that were written there. Data sets that HDF5 would
// read in another way, and addresses outside the file, are refused.
#include "data/chunk_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "data/hdf5_growing.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

class ChunkPlacesTest : public testing::Test {
protected:
    /// Makes a file with data set /set, and passes both to `edit`.
    template <class Edit>
    void make(std::vector<hsize_t> dims, std::vector<hsize_t> chunk, const Edit& edit, hid_t type = H5T_STD_U8LE) {
        const h5::Handle file = h5::create(path_);
        const h5::Handle set = h5::create_dataset(file, "/set", type, dims, chunk, path_);
        edit(set);
    }
    static void fill(hid_t set, hsize_t rows, size_t row_bytes) {
        const std::vector<uint8_t> content(size_t(rows) * row_bytes, 3);
        h5::write_rows(set, H5T_NATIVE_UINT8, 0, rows, content.data(), "");
    }
    std::string problem(const std::vector<std::string>& words, hid_t stored = H5T_STD_U8LE) const {
        return problem_of_error(Exit::bad_input, words, [&] { locate_chunks(h5::open(path_), "/set", stored, path_); });
    }

    TempDir dir_;
    const std::string path_ = dir_.path("file.h5");
};

// Covers a data set with a fixed number of rows and one that grew, because HDF5 indexes them
// differently. There are enough chunks for several blocks in either index.
TEST_F(ChunkPlacesTest, AreWhereTheBytesAre) {
    constexpr size_t rows = 7003, row_bytes = 6, chunk_rows = 5, chunks = 1401;
    std::vector<uint8_t> content(rows * row_bytes);
    for (size_t i = 0; i < content.size(); ++i) content[i] = uint8_t((i * 2654435761u) >> 13);
    for (const bool grows : {false, true}) {
        if (grows) {
            const h5::Handle file = h5::create(path_);
            h5::GrowingSet set(file, "/set", {2, 1, 3}, chunk_rows, path_);
            set.append(content.data(), rows);
            set.finish();
        } else {
            make({rows, 2, 1, 3}, {chunk_rows, 2, 1, 3},
                 [&](hid_t set) { h5::write_rows(set, H5T_NATIVE_UINT8, 0, rows, content.data(), path_); });
        }
        const ChunkPlaces places = locate_chunks(h5::open(path_), "/set", H5T_STD_U8LE, path_);
        EXPECT_EQ(places.bytes, chunk_rows * row_bytes);
        EXPECT_EQ(places.rows, int64_t(chunk_rows));
        ASSERT_EQ(places.addresses.size(), chunks);
        const std::string file = read_file(path_);
        for (size_t i = 0; i < chunks; ++i) {
            const size_t from = i * places.bytes, bytes = std::min(places.bytes, content.size() - from);
            ASSERT_EQ(file.substr(places.addresses[i], bytes),
                      std::string(content.begin() + int64_t(from), content.begin() + int64_t(from + bytes)))
                << "chunk " << i << (grows ? " of a set that grew" : "");
        }
    }
}

TEST_F(ChunkPlacesTest, OfPartsOfRowsAreRefused) {
    make({6, 8}, {6, 4}, [](hid_t set) { fill(set, 6, 8); });
    EXPECT_EQ("", problem({path_, "/set", "not of whole rows"}));
    make({6, 8}, {6, 8}, [](hid_t set) { fill(set, 6, 8); });
    EXPECT_NO_THROW(locate_chunks(h5::open(path_), "/set", H5T_STD_U8LE, path_));
}

// A B-tree can name two chunks for the same rows. H5Dread() and the search for chunks took
// different ones, so that a verified data set was trained on with other pixels.
TEST_F(ChunkPlacesTest, OfRowsThatCouldGrowAreRefused) {
    for (const hsize_t most : {hsize_t(8), hsize_t(16), H5S_UNLIMITED}) {
        const h5::Handle file = h5::create(path_), layout(H5Pcreate(H5P_DATASET_CREATE));
        const hsize_t dims[] = {6, 8}, limits[] = {H5S_UNLIMITED, most};
        const h5::Handle space(H5Screate_simple(2, dims, limits));
        H5Pset_chunk(layout, 2, dims);
        H5Pset_fletcher32(layout);
        const h5::Handle set(H5Dcreate2(file, "set", H5T_STD_U8LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
        fill(set, 6, 8);
        H5Fflush(file, H5F_SCOPE_GLOBAL);
        const auto locate = [&] { locate_chunks(file, "/set", H5T_STD_U8LE, path_); };
        if (most == 8)
            EXPECT_NO_THROW(locate());
        else
            EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "/set", "not of whole rows"}, locate));
    }
}

TEST_F(ChunkPlacesTest, OfNumbersThatHdf5WouldConvertAreRefused) {
    const std::vector<float> numbers(6, 1.0f);
    const auto write = [&](hid_t set) { h5::write_rows(set, H5T_NATIVE_FLOAT, 0, 6, numbers.data(), ""); };
    make({6}, {6}, write, H5T_IEEE_F32BE);
    EXPECT_EQ("", problem({path_, "/set", "little-endian"}, H5T_IEEE_F32LE));
    make({6}, {6}, write, H5T_IEEE_F32LE);
    EXPECT_NO_THROW(locate_chunks(h5::open(path_), "/set", H5T_IEEE_F32LE, path_));
    const h5::Handle few_bits(H5Tcopy(H5T_STD_U8LE));
    H5Tset_precision(few_bits, 4);
    make({6}, {6}, [](hid_t set) { fill(set, 6, 1); }, few_bits);
    EXPECT_EQ("", problem({path_, "/set", "all their bits"}));
}

// HDF5 counts addresses from the end of what precedes its part of the file.
TEST_F(ChunkPlacesTest, OfFilesThatBeginWithSomethingElseAreRefused) {
    {
        const h5::Handle creation(H5Pcreate(H5P_FILE_CREATE));
        H5Pset_userblock(creation, 512);
        const h5::Handle file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT));
        fill(h5::create_dataset(file, "/set", H5T_STD_U8LE, {6}, {6}, path_), 6, 1);
    }
    EXPECT_EQ("", problem({path_, "HDF5 part"}));
}

TEST_F(ChunkPlacesTest, ThatAreMissingAreRefused) {
    make({60}, {10}, [](hid_t set) { fill(set, 50, 1); });
    EXPECT_EQ("", problem({path_, "/set", "claims 84 bytes", "holds 70"}));
    make({60}, {10}, [](hid_t set) {
        fill(set, 60, 1);
        const std::vector<uint8_t> raw(40);  // one is too long, so that the total is long enough
        const hsize_t third = 20;
        H5Dwrite_chunk(set, H5P_DEFAULT, 0, &third, raw.size(), raw.data());
    });
    EXPECT_EQ("", problem({path_, "chunk 2 of /set"}));
}

TEST_F(ChunkPlacesTest, OutsideTheFileAreRefused) {
    make({60}, {10}, [](hid_t set) { fill(set, 60, 1); });
    const h5::Handle file = h5::open(path_);
    const ChunkPlaces places = locate_chunks(file, "/set", H5T_STD_U8LE, path_);
    std::filesystem::resize_file(path_, places.addresses[4] + 13);  // HDF5 has seen the whole one
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "chunk 4 of /set", "outside the file"},
                                   [&] { locate_chunks(file, "/set", H5T_STD_U8LE, path_); }));
    write_file(path_, std::string(50, 'x'));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "/set"},
                                   [&] { locate_chunks(file, "/set", H5T_STD_U8LE, path_); }));
}

// HDF5 compares no checksum of such a chunk, so damage would be read as values.
TEST_F(ChunkPlacesTest, WithoutAChecksumAreRefused) {
    const std::vector<uint8_t> raw(14);
    const auto skip = [&](hid_t set, hsize_t at) {
        H5Dwrite_chunk(set, H5P_DEFAULT, /*filters skipped=*/1, &at, raw.size(), raw.data());
    };
    const auto refused = [&](const std::string& name) {
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, name, "a chunk without a checksum"},
                                       [&] { h5::open_dataset(h5::open(path_), name, path_); }));
    };
    for (const hsize_t rows : {10, 60}) {  // one chunk, and an array of chunks
        make({rows}, {10}, [&](hid_t set) {
            fill(set, rows, 1);
            skip(set, rows - 10);
        });
        refused("/set");
    }
    {
        const h5::Handle file = h5::create(path_);
        h5::GrowingSet set(file, "/grown", {}, 10, path_);
        const std::vector<uint8_t> content(60);
        set.append(content.data(), 60);
        set.finish();
        skip(h5::Handle(H5Dopen2(file, "/grown", H5P_DEFAULT)), 20);
    }
    refused("/grown");
}

#if !H5_VERSION_GE(1, 14, 0)
TEST_F(ChunkPlacesTest, OfTooManyForThisHdf5AreRefused) {
    make({32'769}, {1}, [](hid_t set) { fill(set, 32'769, 1); });
    EXPECT_EQ("", problem({path_, "/set", "32769 chunks", h5::library_version(), "--shards"}));
}
#endif

}  // namespace
}  // namespace convoy::test
