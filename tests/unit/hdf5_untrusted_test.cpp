// Files that contradict themselves are refused before HDF5 reads or writes beyond its buffers.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>

#include "data/hdf5.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/support.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

class Hdf5Untrusted : public testing::Test {
protected:
    using Edit = std::function<void(hid_t file)>;

    /// Writes a file whose /numbers holds 0 to 999 in chunks of 100 int32, then edits it.
    void make(const Edit& edit) const {
        h5::Handle file = h5::create(path_);
        std::vector<int32_t> numbers(1000);
        for (int32_t i = 0; i < 1000; ++i) numbers[i] = i;
        h5::write_rows(h5::create_dataset(file, "/numbers", H5T_STD_I32LE, {1000}, {100}, path_), H5T_NATIVE_INT32, 0,
                       1000, numbers.data(), path_);
        edit(file);
        h5::close(std::move(file), path_);
    }
    std::vector<int32_t> rows(hsize_t first, hsize_t count) const {
        const h5::Handle file = h5::open(path_);
        std::vector<int32_t> values(count);
        h5::read_rows(h5::open_dataset(file, "/numbers", path_), H5T_NATIVE_INT32, first, count, values.data(), path_);
        return values;
    }
    static std::string refusal(const std::vector<std::string>& words, const std::function<void()>& read) {
        return problem_of_error(Exit::bad_input, words, read);
    }
    /// Replaces chunk 3, rows 300 to 399, by `bytes` stored zeros.
    void store_chunk(size_t bytes) const {
        make([&](hid_t file) {
            const std::vector<uint8_t> raw(bytes);
            const hsize_t first = 300;
            H5Dwrite_chunk(h5::open_dataset(file, "/numbers", path_), H5P_DEFAULT, 0, &first, raw.size(), raw.data());
        });
    }

    TempDir dir_;
    const std::string path_ = dir_.path("file.h5");
};

TEST_F(Hdf5Untrusted, ChunksOfAnotherSizeAreRefused) {
    for (const size_t bytes : {4, 8, 403, 405, 4096}) {
        store_chunk(bytes);
        EXPECT_EQ("", refusal({path_, "row 300 of /numbers", std::to_string(bytes) + " bytes instead of 404"},
                              [&] { rows(250, 60); }));
        EXPECT_EQ(rows(200, 100).back(), 299) << "the chunk before it";
        EXPECT_EQ(rows(400, 600).front(), 400) << "the chunks after it";
    }
    store_chunk(404);
    EXPECT_EQ(rows(250, 60)[55], 0);
}

TEST_F(Hdf5Untrusted, ChunksThatWereNeverWrittenAreRefused) {
    make([](hid_t file) { h5::create_dataset(file, "/empty", H5T_STD_I32LE, {1000}, {100}, ""); });
    const h5::Handle file = h5::open(path_), set = h5::open_dataset(file, "/empty", path_);
    int32_t number = 0;
    EXPECT_EQ("", refusal({path_, "/empty"}, [&] { h5::read_rows(set, H5T_NATIVE_INT32, 5, 1, &number, path_); }));
}

TEST_F(Hdf5Untrusted, OnlyPlainChunksWithChecksumsAreOpened) {
    const hsize_t rows = 8;
    const h5::Handle space(H5Screate_simple(1, &rows, nullptr));
    const std::vector<std::pair<std::string, std::function<void(hid_t)>>> layouts = {
        {"contiguous", [](hid_t) {}},
        {"compact", [](hid_t layout) { H5Pset_layout(layout, H5D_COMPACT); }},
        {"external", [](hid_t layout) { H5Pset_external(layout, "/etc/hostname", 0, H5F_UNLIMITED); }},
        {"virtual", [&](hid_t layout) { H5Pset_virtual(layout, space, "/etc/hostname", "/x", space); }},
        {"no checksum", [&](hid_t layout) { H5Pset_chunk(layout, 1, &rows); }},
        {"compressed",
         [&](hid_t layout) {
             H5Pset_chunk(layout, 1, &rows);
             H5Pset_deflate(layout, 6);
             H5Pset_fletcher32(layout);
         }},
    };
    for (const auto& [name, set_layout] : layouts) {
        make([&, &set_layout = set_layout](hid_t file) {
            const h5::Handle layout(H5Pcreate(H5P_DATASET_CREATE));
            set_layout(layout);
            const h5::Handle set(H5Dcreate2(file, "odd", H5T_STD_U8LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
            ASSERT_TRUE(set.valid());
        });
        const h5::Handle file = h5::open(path_);
        EXPECT_EQ("", refusal({path_, "odd"}, [&] { h5::open_dataset(file, "odd", path_); })) << name;
        EXPECT_NO_THROW(h5::open_dataset(file, "/numbers", path_)) << "beside it";
    }
}

/// Returns copies of `type`, each with one field that its standard type does not have.
std::vector<h5::Handle> odd_ones(hid_t type) {
    std::vector<h5::Handle> types;
    const auto add = [&](const std::function<void(hid_t)>& change) {
        types.emplace_back(H5Tcopy(type));
        change(types.back());
    };
    add([&](hid_t odd) {
        H5Tset_size(odd, 8 * H5Tget_size(type));
        H5Tset_offset(odd, 4 * H5Tget_precision(type));
    });
    if (H5Tget_class(type) == H5T_INTEGER) {
        add([](hid_t odd) { H5Tset_precision(odd, 3); });
    } else {
        add([](hid_t odd) { H5Tset_ebias(odd, 1); });
        add([](hid_t odd) { H5Tset_fields(odd, 31, 20, 11, 0, 11); });
        add([](hid_t odd) { H5Tset_norm(odd, H5T_NORM_NONE); });
    }
    return types;
}

TEST_F(Hdf5Untrusted, NumbersWhoseBitsLieElsewhereAreNoStandardOnes) {
    int tried = 0;
    for (const hid_t type : {H5T_STD_U8LE, H5T_STD_I32LE, H5T_STD_I64BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE}) {
        const bool whole = H5Tget_class(type) == H5T_INTEGER;
        const auto read = [&](hid_t file) {
            whole ? void(h5::int_attribute(file, "a", path_)) : void(h5::double_attributes(file, "a", path_));
        };
        const auto with = [&](hid_t of) {
            make([&](hid_t file) {
                const h5::Handle one(H5Screate(H5S_SCALAR));
                const h5::Handle attribute(H5Acreate2(file, "a", of, one, H5P_DEFAULT, H5P_DEFAULT));
                const std::vector<uint8_t> zeros(H5Tget_size(of));
                ASSERT_GE(H5Awrite(attribute, of, zeros.data()), 0);
                h5::create_dataset(file, "set", of, {4}, {4}, path_);
            });
            return h5::open(path_);
        };
        for (const h5::Handle& odd : odd_ones(type)) {
            ++tried;
            const h5::Handle file = with(odd);
            EXPECT_EQ(h5::extent(file, "set", path_).element, h5::Element::other);
            EXPECT_EQ("", refusal({path_, "attribute a", "unexpected type"}, [&] { read(file); }));
        }
        const h5::Handle file = with(type);
        EXPECT_NE(h5::extent(file, "set", path_).element, h5::Element::other);
        EXPECT_NO_THROW(read(file));
    }
    EXPECT_EQ(tried, 14);
}

TEST_F(Hdf5Untrusted, OlderFormatsAreRefusedWithWhatToDo) {
    for (const auto& [low, high] :
         {std::pair{H5F_LIBVER_EARLIEST, H5F_LIBVER_V110}, {H5F_LIBVER_V18, H5F_LIBVER_V18}}) {
        {
            const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS));
            H5Pset_libver_bounds(access, low, high);
            ASSERT_TRUE(h5::Handle(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access)).valid());
        }
        EXPECT_EQ("", refusal({path_, "old format", "libver='v110'"}, [&] { h5::open(path_); }));
    }
    // objects of an old version in a file of the new version
    make([](hid_t file) {
        H5Fset_libver_bounds(file, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
        h5::create_dataset(file, "/old/set", H5T_STD_I32LE, {4}, {4}, "");
    });
    const h5::Handle file = h5::open(path_);
    EXPECT_EQ("", refusal({path_, "old format"}, [&] { h5::open_dataset(file, "/old/set", path_); }));
    EXPECT_EQ(rows(0, 3)[2], 2);
}

TEST_F(Hdf5Untrusted, FilesWithAUserBlockOrFileSpaceSettingsAreRefused) {
    const auto problem = [&](const std::function<void(hid_t)>& set, const std::string& word) {
        {
            const h5::Handle creation(H5Pcreate(H5P_FILE_CREATE)), access(H5Pcreate(H5P_FILE_ACCESS));
            set(creation);
            H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
            EXPECT_TRUE(h5::Handle(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, creation, access)).valid());
        }
        return refusal({path_, word}, [&] { h5::open(path_); });
    };
    EXPECT_EQ("", problem([](hid_t creation) { H5Pset_userblock(creation, 512); }, "HDF5 part"));
    EXPECT_EQ("", problem([](hid_t c) { H5Pset_file_space_strategy(c, H5F_FSPACE_STRATEGY_PAGE, true, 1); },
                          "file space settings"));
    EXPECT_EQ("", problem([](hid_t creation) { H5Pset_shared_mesg_nindexes(creation, 1); }, "file space settings"));
}

TEST_F(Hdf5Untrusted, CommittedTypesAreRefused) {
    make([](hid_t file) {
        const h5::Handle type(H5Tcopy(H5T_STD_I32LE)), one(H5Screate(H5S_SCALAR));
        H5Tcommit2(file, "type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        h5::create_dataset(file, "set", type, {4}, {4}, "");
        const h5::Handle group(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        h5::Handle(H5Acreate2(group, "a", type, one, H5P_DEFAULT, H5P_DEFAULT));
    });
    const h5::Handle file = h5::open(path_);
    EXPECT_EQ(
        "", refusal({path_, "set", "parts that no file of Convoy has"}, [&] { h5::open_dataset(file, "set", path_); }));
    EXPECT_EQ("", refusal({path_, "group", "attribute"}, [&] { h5::has(file, "group"); }));
    EXPECT_EQ("", refusal({path_, "type"}, [&] { h5::has(file, "type"); }));
}

// HDF5 1.10 allocates memory for the length of a text, and writes as much as the heap has.
TEST_F(Hdf5Untrusted, TextsOfAnotherLengthThanTheirHeapSaysAreRefused) {
    const std::string text(9000, 't');
    make([&](hid_t file) { h5::set_attribute(file, "text", text); });
    EXPECT_EQ(h5::string_attribute(h5::open(path_), "text", path_), text);
    const std::string whole = read_file(path_);
    const size_t heap = whole.find("GCOL");
    ASSERT_NE(heap, std::string::npos);
    const auto with = [&](size_t at, uint64_t value, size_t bytes) {
        std::string file = whole;
        std::memcpy(&file[heap + at], &value, bytes);
        write_file(path_, file);
        return refusal({path_, "text of attribute text", "damaged"},
                       [&] { h5::string_attribute(h5::open(path_), "text", path_); });
    };
    EXPECT_EQ("", with(24, 8999, 8)) << "a smaller object";
    EXPECT_EQ("", with(24, 20'000, 8)) << "a larger one";
    EXPECT_EQ("", with(24, ~uint64_t(7), 8)) << "beyond every end";
    EXPECT_EQ("", with(16, 2, 2)) << "another index";
    EXPECT_EQ("", with(16, 0, 8)) << "free space";
    EXPECT_EQ("", with(8, 64, 8)) << "a smaller heap";
    EXPECT_EQ("", with(8, 1 << 20, 8)) << "a larger one";
    EXPECT_EQ("", with(4, 2, 1)) << "another version";
    write_file(path_, whole);
    EXPECT_EQ(h5::string_attribute(h5::open(path_), "text", path_), text);
}

// Each of them would be looked for in the whole heap.
TEST_F(Hdf5Untrusted, ManyReferencesToALargeHeapAreRefused) {
    make([&](hid_t file) { h5::set_attribute(file, "text", std::string(15'000'000, 't')); });
    std::string whole = read_file(path_);
    const size_t name = whole.find(std::string("text", 5)), begin = name - 9, heap = whole.find("GCOL");
    const uint64_t address = heap;
    const size_t reference = whole.find(std::string(reinterpret_cast<const char*>(&address), 8), begin);
    ASSERT_LT(reference, begin + 100);
    std::string message = whole.substr(begin, reference + 12 - begin);
    EXPECT_EQ(h5::string_attribute(h5::open(path_), "text", path_).size(), 15'000'000u);
    message[message.size() - 4] = 9;  // another object, which the heap does not have
    for (int i = 0; i < 100; ++i) whole += message;
    write_file(path_, whole);
    change_structure(path_, {"\x89HDF", 0, 28, 8, whole.size()});  // the end of the file
    EXPECT_EQ("", refusal({path_, "heaps of more than 256 MiB"},
                          [&] { h5::string_attribute(h5::open(path_), "text", path_); }));
}

TEST_F(Hdf5Untrusted, NoFileLoadsALibraryOfFilters) {
    make([](hid_t) {});
    h5::open(path_);
    unsigned kinds = ~0u;
    ASSERT_GE(H5PLget_loading_state(&kinds), 0);
    EXPECT_EQ(kinds, 0u);
}

// A thousand references may point to the same megabyte.
TEST_F(Hdf5Untrusted, ListsOfVariableTextsAreRefused) {
    make([](hid_t file) {
        h5::set_attribute(file, "names", std::vector<std::string>{"a", "b"});
        h5::set_checked_attribute(file, "good", std::vector<std::string>{"a", "b"});
    });
    const h5::Handle file = h5::open(path_);
    EXPECT_EQ("", refusal({path_, "names", "variable length"}, [&] { h5::string_attributes(file, "names", path_); }));
    EXPECT_EQ(h5::string_attributes(file, "good", path_), (std::vector<std::string>{"a", "b"}));
}

// The script follows input/README.md's instructions for writing shards.
TEST_F(Hdf5Untrusted, FilesThatH5pyWritesInTheNewFormatAreRead) {
    const std::string python = python_with("h5py");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    for (const std::string libver : {"'v110'", "'latest'", "'earliest'"}) {
        const auto written = run(
            python + " -c \"import h5py, numpy; f = h5py.File('" + path_ + "', 'w', libver=" + libver +
            "); f.create_dataset('numbers', data=numpy.arange(1000, dtype='int32'), chunks=(100,), fletcher32=True); "
            "f.attrs['names'] = numpy.array(['a', 'bc'], dtype='S'); f.attrs['text'] = 'of variable length'\"");
        ASSERT_EQ(written.code, 0);
        if (libver == "'earliest'") {
            EXPECT_EQ("", refusal({path_, "libver='v110'"}, [&] { h5::open(path_); }));
            continue;
        }
        EXPECT_EQ(rows(900, 100)[99], 999) << libver;
        const h5::Handle file = h5::open(path_);
        EXPECT_EQ(h5::string_attributes(file, "names", path_), (std::vector<std::string>{"a", "bc"}));
        EXPECT_EQ(h5::string_attribute(file, "text", path_), "of variable length");
    }
}

}  // namespace
}  // namespace convoy::test
