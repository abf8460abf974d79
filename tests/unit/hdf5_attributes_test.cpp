// Texts in files as read by other programs.
#include <gtest/gtest.h>

#include "data/hdf5.h"
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

}  // namespace
}  // namespace convoy::test
