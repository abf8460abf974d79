// Files whose structure contradicts itself under right checksums are refused before HDF5 decodes
// it.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/hdf5.h"
#include "data/hdf5_growing.h"
#include "data/hdf5_structure.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/support.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

class Hdf5Structure : public testing::Test {
protected:
    static constexpr hsize_t rows = 3000, chunk_rows = 2;

    /// The file has every block that Convoy's files have: more attributes and links than a header
    /// holds, an attribute that is larger than a heap's block, one data set that grew and one that
    /// did not, both of many chunks.
    Hdf5Structure() {
        h5::Handle file = h5::create(path_);
        for (int i = 0; i < 300; ++i) h5::set_attribute(file, name("attribute", i), int64_t(i));
        h5::set_checked_attribute(file, "long", std::string(9000, 'x'));
        std::vector<uint8_t> content(rows, 3);
        {
            h5::GrowingSet grown(file, "grown", {}, chunk_rows, path_);
            grown.append(content.data(), rows);
            grown.finish();
        }
        for (int i = 0; i < 300; ++i) {
            const hsize_t count = i == 0 ? rows : 1;
            const auto set =
                h5::create_dataset(file, "sets/" + name("set", i), H5T_STD_U8LE, {count}, {chunk_rows}, "");
            h5::write_rows(set, H5T_NATIVE_UINT8, 0, count, content.data(), path_);
        }
        h5::close(std::move(file), path_);
    }
    static std::string name(const std::string& kind, int i) { return kind + " " + std::to_string(i); }

    void read() const {
        const h5::Handle file = h5::open(path_);
        for (int i = 0; i < 300; ++i) EXPECT_EQ(h5::int_attribute(file, name("attribute", i), path_), i);
        EXPECT_EQ(h5::string_attribute(file, "long", path_), std::string(9000, 'x'));
        for (const char* set : {"grown", "sets/set 0", "sets/set 299"}) {
            const hsize_t count = h5::extent(file, set, path_).dims[0];
            std::vector<uint8_t> content(count);
            h5::read_rows(h5::open_dataset(file, set, path_), H5T_NATIVE_UINT8, 0, count, content.data(), path_);
            EXPECT_EQ(content, std::vector<uint8_t>(count, 3));
        }
    }

    TempDir dir_;
    const std::string path_ = dir_.path("file.h5");
};

/// Numbers that HDF5 1.10.8 or 1.14 does not check, or not against one another.
const StructureChange contradictions[] = {
    {"BTHD", 0, 10, 2, 0},           // records of no bytes
    {"BTHD", 1, 10, 2, 0},           // of links
    {"BTHD", 0, 6, 4, 64},           // smaller nodes
    {"BTHD", 0, 12, 2, 7},           // a deeper tree
    {"BTHD", 0, 12, 2, 0},           // a root without nodes below
    {"BTHD", 0, 5, 1, 1},            // records of another kind
    {"BTHD", 0, 24, 2, 500},         // a root of more records than it has room for
    {"BTHD", 0, 26, 8, 3},           // fewer records than there are
    {"BTHD", 0, 16, 8, 1 << 30},     // a root outside of the file
    {"BTIN", 0, 4, 1, 1},            // another version
    {"FRHP", 0, 5, 2, 3},            // shorter ids
    {"FRHP", 0, 7, 2, 40},           // filters
    {"FRHP", 0, 9, 1, 0},            // blocks without checksums
    {"FRHP", 0, 10, 4, 1 << 20},     // larger objects
    {"FRHP", 0, 46, 8, 1 << 20},     // a larger heap
    {"FRHP", 0, 110, 2, 0},          // rows of no blocks
    {"FRHP", 0, 112, 8, 1 << 20},    // larger blocks
    {"FRHP", 0, 120, 8, 1 << 30},    // larger blocks
    {"FRHP", 0, 128, 2, 64},         // more bits of places
    {"FRHP", 0, 140, 2, 200},        // more rows
    {"FHIB", 0, 13, 4, 4096},        // the root at another place
    {"FHDB", 1, 13, 4, 1 << 20},     // a block at another place
    {"EAHD", 0, 6, 1, 200},          // larger entries
    {"EAHD", 0, 7, 1, 60},           // more of them
    {"EAHD", 0, 8, 1, 200},          // more in the first block
    {"EAHD", 0, 9, 1, 3},            // smaller blocks
    {"EAHD", 0, 11, 1, 1},           // smaller pages
    {"EAHD", 0, 44, 8, 1ull << 40},  // HDF5 would look at each for hours
    {"EAIB", 0, 6, 8, 0},            // a block of another array
    {"EASB", 0, 14, 4, 7},           // a block at another place
    {"FAHD", 0, 6, 1, 3},            // shorter entries
    {"FAHD", 0, 7, 1, 1},            // smaller pages
    {"FAHD", 0, 8, 8, 1 << 30},      // more of them
    {"OHDR", 0, 5, 1, 0x40},         // an unknown flag
};

TEST_F(Hdf5Structure, ThatContradictsItselfIsRefused) {
    const std::string whole = read_file(path_);
    for (const StructureChange& change : contradictions) {
        write_file(path_, whole);
        change_structure(path_, change);
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "is not as convoy stores it"}, [&] { read(); }))
            << change.block << " " << change.which << " at " << change.at << ": " << change.value;
    }
}

// HDF5 keeps one block per address, with as many entries as it was first read with.
TEST_F(Hdf5Structure, BlocksThatOverlapAreRefused) {
    const std::string file = read_file(path_);
    const size_t block = file.find("EAIB"), first = block + 14 + 4 * 14;  // of the addresses of blocks
    uint64_t address = 0;
    file.copy(reinterpret_cast<char*>(&address), sizeof address, first);
    ASSERT_EQ(file.substr(address, 4), "EADB");
    change_structure(path_, {"EAIB", 0, first - block + 8, 8, address});
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "overlap"}, [&] { h5::open(path_); }));
}

// If all records of a tree name the largest object, that is read for each of them.
TEST_F(Hdf5Structure, AnObjectThatATreeNamesOftenIsRefused) {
    const std::string file = read_file(path_);
    constexpr char by_name = 8;
    size_t leaf = 0;
    size_t at = file.find("BTLF");
    while (at != std::string::npos && file[at + 5] != by_name) at = file.find("BTLF", at + 1), ++leaf;
    ASSERT_NE(at, std::string::npos);
    constexpr uint64_t the_long_one = 0x0110;  // of the kind 0x10, number 1
    constexpr size_t record_bytes = 17, before_records = 6, records = 10;
    for (size_t i = 0; i < records; ++i)
        change_structure(path_, {"BTLF", leaf, before_records + record_bytes * i, 8, the_long_one});
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "names twice"}, [&] { h5::open(path_); }));
}

// HDF5 converts the value as if it had the bytes of an element.
TEST_F(Hdf5Structure, FillValuesOfAnotherLengthAreRefused) {
    constexpr int32_t value = 0x11223344;
    {
        const h5::Handle file = h5::create(path_), layout(H5Pcreate(H5P_DATASET_CREATE));
        const h5::Handle space(H5Screate_simple(1, &rows, nullptr));
        H5Pset_chunk(layout, 1, &chunk_rows);
        H5Pset_fletcher32(layout);
        H5Pset_fill_value(layout, H5T_NATIVE_INT32, &value);
        ASSERT_TRUE(
            h5::Handle(H5Dcreate2(file, "set", H5T_STD_I32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT)).valid());
    }
    EXPECT_NO_THROW(h5::open_dataset(h5::open(path_), "set", path_));
    const std::string file = read_file(path_);
    const size_t length = file.find(std::string("\4\0\0\0\x44\x33\x22\x11", 8)), header = file.rfind("OHDR", length);
    ASSERT_GT(header, file.find("OHDR"));
    change_structure(path_, {"OHDR", 1, length - header, 4, 1});
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "/set", "fill value"},
                                   [&] { h5::open_dataset(h5::open(path_), "set", path_); }));
}

// Their places take no room on a disk, but HDF5 visits them all for the size of a data set.
TEST_F(Hdf5Structure, MillionsOfChunksAreRefused) {
    const auto written = [&](hsize_t most) {
        const h5::Handle file = h5::create(path_), layout(H5Pcreate(H5P_DATASET_CREATE));
        const hsize_t one = 1;
        const h5::Handle space(H5Screate_simple(1, &one, &most));
        H5Pset_chunk(layout, 1, &one);
        H5Pset_fletcher32(layout);
        const h5::Handle set(H5Dcreate2(file, "set", H5T_STD_I32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
        const int32_t value = 7;
        ASSERT_GE(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value), 0);
    };
    const auto read = [&] { h5::open_dataset(h5::open(path_), "set", path_); };
    written(1'000'000);
    EXPECT_NO_THROW(read());
    written(1'100'000);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "too many chunks"}, read));
}

// Objects that h5py writes. Convoy reads none of them, but HDF5 decodes them all.
TEST_F(Hdf5Structure, OfWhatH5pyAddsIsRead) {
    const std::string python = python_with("h5py");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    write_file(dir_.path("add.py"), R"(import h5py, numpy, sys
for mode, ordered in (("r+", False), ("w", False), ("w", True)):
    name = sys.argv[1] + (mode if mode == "r+" else str(ordered))
    with h5py.File(name, mode, libver="v110", track_order=ordered) as f:
        f.attrs["flag"], f.attrs["number"], f.attrs["text"] = True, numpy.int16(3), "of variable length"
        f.attrs["texts"], f.attrs["empty"] = numpy.array(["a", "bc"], dtype="S"), h5py.Empty("f")
        for i in range(100):
            f["new/set %d" % i] = numpy.arange(3)
        wide = f.create_dataset("wide", (40, 40), maxshape=(None, None), chunks=(1, 1), fletcher32=True, dtype="i4")
        wide[...] = 1
        f["scale"] = numpy.arange(40)
        f["scale"].make_scale("rows")
        wide.dims[0].attach_scale(f["scale"])
with h5py.File(sys.argv[1] + "r+", "r+") as f:  # with attributes of the oldest format
    f.attrs["old text"], f.attrs["old"] = "text", numpy.arange(5)
)");
    std::filesystem::copy_file(path_, path_ + "r+");
    const auto added = run(python + " " + dir_.path("add.py") + " " + path_);
    ASSERT_EQ(added.code, 0) << added.err;
    for (const std::string& file : {path_ + "r+", path_ + "False", path_ + "True"}) {
        const h5::Handle opened = h5::open(file);
        EXPECT_EQ(h5::int_attribute(opened, "number", file), 3) << file;
        std::vector<int32_t> ones(1600);
        h5::read_rows(h5::open_dataset(opened, "wide", file), H5T_NATIVE_INT32, 0, 40, ones.data(), file);
        EXPECT_EQ(ones, std::vector<int32_t>(1600, 1));
        EXPECT_TRUE(h5::has(opened, "new"));
    }
}

TEST_F(Hdf5Structure, OfASoundFileIsRead) {
    read();
    EXPECT_NO_THROW(h5::check_structure(path_, h5::Objects::all));
}

}  // namespace
}  // namespace convoy::test
