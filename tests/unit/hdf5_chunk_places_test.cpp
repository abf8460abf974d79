// Chunks that lie in the same bytes of a file are refused: a small file would be gigabytes in
// memory.
#include <gtest/gtest.h>

#include <numeric>

#include "data/hdf5.h"
#include "data/hdf5_structure.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using Dims = std::vector<hsize_t>;

/// A data set whose chunks have one element each. HDF5 chooses the index by what may grow.
struct Indexed {
    const char* index;
    Dims dims, most;
};
const Indexed indexes[] = {
    {"a fixed array", {10}, {10}},
    {"a fixed array of pages", {3000}, {3000}},
    {"the index block of an extensible array", {3}, {H5S_UNLIMITED}},
    {"a data block of an extensible array", {20}, {H5S_UNLIMITED}},
    {"a later data block of an extensible array", {3000}, {H5S_UNLIMITED}},
    {"a page of an extensible array", {132'000}, {H5S_UNLIMITED}},
    {"a tree", {3, 50}, {H5S_UNLIMITED, H5S_UNLIMITED}},
};

class Hdf5ChunkPlaces : public testing::Test {
protected:
    /// Writes a data set "many" and a data set "one" of one chunk.
    void make(const Indexed& kind) const {
        h5::Handle file = h5::create(path_);
        add(file, "many", kind.dims, kind.most);
        add(file, "one", {1}, {1});
        h5::close(std::move(file), path_);
    }
    void add(hid_t file, const char* name, const Dims& dims, const Dims& most) const {
        const int rank = int(dims.size());
        const Dims side(dims.size(), 1);
        const h5::Handle space(H5Screate_simple(rank, dims.data(), most.data())), layout(H5Pcreate(H5P_DATASET_CREATE));
        H5Pset_chunk(layout, rank, side.data());
        H5Pset_fletcher32(layout);
        const h5::Handle set(H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
        const std::vector<uint8_t> content(elements(dims), 3);
        ASSERT_GE(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data()), 0);
    }
    static size_t elements(const Dims& dims) {
        return std::accumulate(dims.begin(), dims.end(), size_t(1), std::multiplies<>());
    }
    haddr_t last_chunk(const char* name) const {
        const h5::Handle file = h5::open(path_), set = h5::open_dataset(file, name, path_);
        Dims last = h5::extent(file, name, path_).dims;
        for (hsize_t& side : last) --side;
        haddr_t address = 0;
        hsize_t bytes = 0;
        unsigned skipped = 0;
        EXPECT_GE(H5Dget_chunk_info_by_coord(set, last.data(), &skipped, &address, &bytes), 0);
        return address;
    }
    /// Lets what names the address `from` name `to`.
    void exchange(uint64_t from, uint64_t to) const {
        std::string file = read_file(path_);
        const auto bytes = [](const uint64_t& address) {
            return std::string(reinterpret_cast<const char*>(&address), sizeof address);
        };
        const size_t at = file.find(bytes(from));
        ASSERT_NE(at, std::string::npos);
        ASSERT_EQ(at, file.rfind(bytes(from)));
        write_file(path_, file.replace(at, sizeof to, bytes(to)));
    }
    std::string problem() const {
        return problem_of_error(Exit::bad_input, {path_, "overlap"}, [&] { h5::open(path_); });
    }

    TempDir dir_;
    const std::string path_ = dir_.path("file.h5");
};

TEST_F(Hdf5ChunkPlaces, OfAnotherDataSetAreRefused) {
    for (const Indexed& kind : indexes) {
        make(kind);
        const haddr_t of_many = last_chunk("many"), of_one = last_chunk("one");
        const std::string whole = read_file(path_);
        exchange(of_many, of_one);
        EXPECT_EQ("", problem()) << kind.index;
        write_file(path_, whole);
        exchange(of_many, of_one - 4);
        EXPECT_EQ("", problem()) << kind.index << ": the first byte of the other one";
        write_file(path_, whole);
        exchange(of_one, of_many - 1);
        EXPECT_EQ("", problem()) << kind.index << ": of the chunk that is alone";
    }
}

TEST_F(Hdf5ChunkPlaces, OutsideOfTheFileAreRefused) {
    for (const Indexed& kind : indexes) {
        make(kind);
        exchange(last_chunk("many"), read_file(path_).size() - 4);
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "/many", "outside of the file"},
                                       [&] { h5::open_dataset(h5::open(path_), "many", path_); }))
            << kind.index;
    }
}

TEST_F(Hdf5ChunkPlaces, InTheStructureAreRefused) {
    make(indexes[0]);
    exchange(last_chunk("many"), read_file(path_).find("FADB") + 8);
    EXPECT_EQ("", problem());
}

TEST_F(Hdf5ChunkPlaces, OfSoundFilesAreRead) {
    for (const Indexed& kind : indexes) {
        make(kind);
        ASSERT_NO_THROW(h5::check_structure(path_, h5::Objects::all)) << kind.index;
        const h5::Handle file = h5::open(path_);
        std::vector<uint8_t> content(elements(kind.dims));
        h5::read_rows(h5::open_dataset(file, "many", path_), H5T_NATIVE_UINT8, 0, kind.dims[0], content.data(), path_);
        EXPECT_EQ(content, std::vector<uint8_t>(content.size(), 3)) << kind.index;
    }
}

// HDF5 gives a page content when one of its chunks is written.
TEST_F(Hdf5ChunkPlaces, OfPagesThatWereNeverWrittenAreNone) {
    constexpr hsize_t before_pages = 131'060, rows = before_pages + 1501, side = 1;  // an extensible array's
    for (const hsize_t most : {rows, H5S_UNLIMITED}) {
        {
            h5::Handle file = h5::create(path_);
            const h5::Handle space(H5Screate_simple(1, &rows, &most)), layout(H5Pcreate(H5P_DATASET_CREATE));
            H5Pset_chunk(layout, 1, &side);
            H5Pset_fletcher32(layout);
            const h5::Handle set(H5Dcreate2(file, "set", H5T_STD_U8LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
            const std::vector<uint8_t> content(before_pages, 7);
            h5::write_rows(set, H5T_NATIVE_UINT8, 0, before_pages, content.data(), path_);
            h5::write_rows(set, H5T_NATIVE_UINT8, rows - 1, 1, content.data(), path_);
            h5::close(std::move(file), path_);
        }
        ASSERT_NO_THROW(h5::check_structure(path_, h5::Objects::all));
        uint8_t value = 0;
        h5::read_rows(h5::open_dataset(h5::open(path_), "set", path_), H5T_NATIVE_UINT8, rows - 1, 1, &value, path_);
        EXPECT_EQ(value, 7);
    }
}

}  // namespace
}  // namespace convoy::test
