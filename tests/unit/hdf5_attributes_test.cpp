// Texts in files as read by other programs.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/hdf5.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/file_calls.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Reads texts like a C program: HDF5 converts the texts of the file to zero-terminated texts.
std::vector<std::string> read_as_c_strings(hid_t file, const char* name) {
    constexpr size_t width = 32;
    const h5::Handle attribute(H5Aopen(file, name, H5P_DEFAULT)), space(H5Aget_space(attribute)),
        type(H5Tcopy(H5T_C_S1));
    const h5::Handle stored(H5Aget_type(attribute));
    EXPECT_EQ(H5Tget_strpad(stored), H5T_STR_NULLPAD) << "the widest text has no room for a zero at its end";
    H5Tset_size(type, width);
    H5Tset_cset(type, H5T_CSET_UTF8);
    std::vector<char> bytes(size_t(H5Sget_simple_extent_npoints(space)) * width);
    EXPECT_GE(H5Aread(attribute, type, bytes.data()), 0);
    std::vector<std::string> texts;
    for (size_t at = 0; at < bytes.size(); at += width) texts.emplace_back(&bytes[at]);
    return texts;
}

TEST(Hdf5Attributes, TextsAreWholeInOtherPrograms) {
    const std::vector<std::string> texts = {"", "a", "as wide as any", "größer"};
    const h5::Handle file = h5::create_in_memory();
    h5::set_checked_attribute(file, "texts", texts);
    h5::set_checked_attribute(file, "one", std::string("whole"));
    h5::set_checked_attribute(file, "empty", std::string());
    EXPECT_EQ(read_as_c_strings(file, "texts"), texts);
    EXPECT_EQ(read_as_c_strings(file, "one"), std::vector<std::string>{"whole"});
    EXPECT_EQ(read_as_c_strings(file, "empty"), std::vector<std::string>{""});
    EXPECT_EQ(h5::string_attributes(file, "texts", "x"), texts);
    EXPECT_EQ(h5::string_attribute(file, "one", "x"), "whole");
    h5::set_checked_attribute(file, "one", std::string("another"));
    EXPECT_EQ(h5::string_attribute(file, "one", "x"), "another") << "in its place";
}

// Texts are padded to the longest one, so that a long one among many takes gigabytes.
TEST(Hdf5Attributes, TextsThatWouldNotBeReadAreNotWritten) {
    const h5::Handle file = h5::create_in_memory();
    std::vector<std::string> texts(20000, "a");
    texts[7] = std::string(800, 'x');
    h5::set_checked_attribute(file, "texts", texts);
    EXPECT_EQ(h5::string_attributes(file, "texts", "x"), texts);
    texts[7] = std::string(100'000, 'x');
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"attribute texts has 20000 texts of up to 100000 bytes"},
                                   [&] { h5::set_checked_attribute(file, "texts", texts); }));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"attribute text has 1 texts of up to 1048577 bytes"},
                                   [&] { h5::set_checked_attribute(file, "text", std::string((1 << 20) + 1, 'x')); }));
}

// Texts of fixed width take their whole width in memory.
TEST(Hdf5Attributes, TextsOfMoreThan16MiBAreNotRead) {
    const h5::Handle file = h5::create_in_memory(), type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, 1 << 20);
    for (const hsize_t texts : {16, 17}) {
        const std::string name = std::to_string(texts) + " texts";
        const h5::Handle space(H5Screate_simple(1, &texts, nullptr));
        const h5::Handle attribute(H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
        const std::vector<char> zeros(texts << 20);
        ASSERT_GE(H5Awrite(attribute, type, zeros.data()), 0);
    }
    EXPECT_EQ(h5::string_attributes(file, "16 texts", "x"), std::vector<std::string>(16));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"x: attribute 17 texts has an impossible size"},
                                   [&] { h5::string_attributes(file, "17 texts", "x"); }));
}

class Hdf5AttributesOfLongFiles : public testing::Test {
protected:
    Hdf5AttributesOfLongFiles() {
        h5::Handle file = h5::create(path_);
        h5::set_attribute(file, "text", "of variable length");
        h5::close(std::move(file), path_);
    }
    /// Returns how many bytes are read for the text.
    size_t read() const {
        const size_t before = bytes_read();
        EXPECT_EQ(h5::string_attribute(h5::open(path_), "text", path_), "of variable length");
        return bytes_read() - before;
    }

    static constexpr size_t few = 4 << 20;
    TempDir dir_;
    const std::string path_ = dir_.path("file.h5");
};

TEST_F(Hdf5AttributesOfLongFiles, TextsAreNotLookedForBehindTheEnd) {
    write_file(path_, read_file(path_) + std::string(16 << 20, 'x'));
    EXPECT_LT(read(), few);
}

TEST_F(Hdf5AttributesOfLongFiles, TextsAreNotLookedForInHoles) {
    constexpr uint64_t bytes = uint64_t(2) << 30, end_at = 28;
    change_structure(path_, {"\x89HDF", 0, end_at, 8, bytes});
    std::filesystem::resize_file(path_, bytes);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "are a hole"}, [&] { read(); }));
}

}  // namespace
}  // namespace convoy::test
