// Writes and reads attributes of HDF5 objects. Files are not trusted: before memory is allocated,
// element counts and string widths are checked against limits that no real file reaches.
#include <algorithm>
#include <cstring>

#include "data/hdf5_failure.h"
#include "data/hdf5_untrusted.h"

namespace convoy::h5 {
namespace {

constexpr size_t most_values = 1 << 20, most_width = 1 << 20, most_text_bytes = 16 << 20;

Handle utf8_string_type() {
    Handle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

/// Creates (or replaces) an attribute; rank 0 is a scalar.
void put_attribute(hid_t object, const std::string& name, hid_t file_type, hid_t memory_type, int rank, hsize_t count,
                   const void* data) {
    if (has_attribute(object, name)) H5Adelete(object, name.c_str());
    const Handle space(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr));
    const Handle attribute(H5Acreate2(object, name.c_str(), file_type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (!attribute.valid() || (count > 0 && H5Awrite(attribute, memory_type, data) < 0))
        fail(Exit::io, "cannot write attribute " + name + because() + "; is the disk full?");
}

void put_fixed_strings(hid_t object, const std::string& name, int rank, const std::vector<std::string>& values) {
    size_t width = 1;
    for (const std::string& value : values) width = std::max(width, value.size());
    if (values.size() > most_values || width > most_width || values.size() * width > most_text_bytes)
        fail(Exit::bad_input, "attribute " + name + " has " + std::to_string(values.size()) + " texts of up to " +
                                  std::to_string(width) + " bytes, more than can be read again; shorten them");
    std::string bytes;
    for (const std::string& value : values) bytes += value + std::string(width - value.size(), '\0');
    const Handle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, width);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    put_attribute(object, name, type, type, rank, values.size(), bytes.data());
}

/// An attribute that is open for reading, and whose type and size were checked.
struct Opened {
    Handle attribute, type;
    size_t count = 0;
};

[[noreturn]] void unreadable_attribute(const std::string& name, const std::string& path) {
    fail_to_read(path, "attribute " + name, "make it again");
}

/// Returns true if `type` equals one type of a pair, bit for bit. A pair is a little-endian
/// standard type and its big-endian twin.
bool is_one_of(hid_t type, std::initializer_list<std::pair<hid_t, hid_t>> pairs) {
    return std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
        return H5Tequal(type, pair.first) > 0 || H5Tequal(type, pair.second) > 0;
    });
}

/// Returns true for standard types. For numbers with another bit layout HDF5 reads beyond its
/// buffers.
bool is_standard(hid_t type, H5T_class_t type_class) {
    if (H5Tcommitted(type) > 0) return false;
    if (type_class == H5T_FLOAT)
        return is_one_of(type, {{H5T_IEEE_F32LE, H5T_IEEE_F32BE}, {H5T_IEEE_F64LE, H5T_IEEE_F64BE}});
    return type_class == H5T_STRING || is_one_of(type, {{H5T_STD_I8LE, H5T_STD_I8BE},
                                                        {H5T_STD_I16LE, H5T_STD_I16BE},
                                                        {H5T_STD_I32LE, H5T_STD_I32BE},
                                                        {H5T_STD_I64LE, H5T_STD_I64BE},
                                                        {H5T_STD_U8LE, H5T_STD_U8BE},
                                                        {H5T_STD_U16LE, H5T_STD_U16BE},
                                                        {H5T_STD_U32LE, H5T_STD_U32BE},
                                                        {H5T_STD_U64LE, H5T_STD_U64BE}});
}

Opened open_attribute(hid_t object, const std::string& name, H5T_class_t wanted, const std::string& path) {
    if (!has_attribute(object, name))
        fail(Exit::bad_input, path + ": attribute " + name + " is missing; was this file made by convoy?");
    Opened opened{Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT)), Handle(), 0};
    if (!opened.attribute.valid()) unreadable_attribute(name, path);
    opened.type = Handle(H5Aget_type(opened.attribute));
    const Handle space(H5Aget_space(opened.attribute));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (H5Tget_class(opened.type) != wanted || !is_standard(opened.type, wanted))
        fail(Exit::bad_input, path + ": attribute " + name + " has an unexpected type");
    if (count < 0 || size_t(count) > most_values || H5Tget_size(opened.type) > most_width)
        fail(Exit::bad_input, path + ": attribute " + name + " has an impossible size");
    opened.count = size_t(count);
    return opened;
}

std::string variable_string(const Opened& opened, const std::string& name, const std::string& path) {
    const std::optional<std::string> text = variable_text(opened.attribute, name, path);
    if (!text) fail(Exit::bad_input, path + ": the text of attribute " + name + " is damaged; make the file again");
    return *text;
}

std::vector<std::string> fixed_strings(const Opened& opened, const std::string& name, const std::string& path) {
    const size_t width = H5Tget_size(opened.type);
    if (width == 0 || opened.count * width > most_text_bytes)
        fail(Exit::bad_input, path + ": attribute " + name + " has an impossible size");
    std::vector<char> bytes(opened.count * width);
    if (opened.count > 0 && H5Aread(opened.attribute, opened.type, bytes.data()) < 0) unreadable_attribute(name, path);
    std::vector<std::string> values;
    for (size_t i = 0; i < opened.count; ++i) values.emplace_back(&bytes[i * width], strnlen(&bytes[i * width], width));
    return values;
}

}  // namespace

void set_attribute(hid_t object, const std::string& name, const std::string& value) {
    const Handle type = utf8_string_type();
    const char* text = value.c_str();
    put_attribute(object, name, type, type, 0, 1, &text);
}
void set_attribute(hid_t object, const std::string& name, const char* value) {
    set_attribute(object, name, std::string(value));
}
void set_attribute(hid_t object, const std::string& name, int64_t value) {
    put_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, 0, 1, &value);
}
void set_attribute(hid_t object, const std::string& name, double value) {
    put_attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 0, 1, &value);
}
void set_attribute(hid_t object, const std::string& name, const std::vector<double>& values) {
    put_attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, values.size(), values.data());
}
void set_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values) {
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    const Handle type = utf8_string_type();
    put_attribute(object, name, type, type, 1, values.size(), pointers.data());
}

void set_checked_attribute(hid_t object, const std::string& name, const std::string& value) {
    put_fixed_strings(object, name, 0, {value});
}
void set_checked_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values) {
    put_fixed_strings(object, name, 1, values);
}

bool has_attribute(hid_t object, const std::string& name) {
    return exists_in(H5Aexists(object, name.c_str()), object, "attribute " + name);
}

std::string string_attribute(hid_t object, const std::string& name, const std::string& path) {
    const Opened opened = open_attribute(object, name, H5T_STRING, path);
    if (opened.count != 1) fail(Exit::bad_input, path + ": attribute " + name + " is not one string");
    return H5Tis_variable_str(opened.type) > 0 ? variable_string(opened, name, path)
                                               : fixed_strings(opened, name, path)[0];
}

int64_t int_attribute(hid_t object, const std::string& name, const std::string& path) {
    const Opened opened = open_attribute(object, name, H5T_INTEGER, path);
    int64_t value = 0;
    if (opened.count != 1) fail(Exit::bad_input, path + ": attribute " + name + " is not one integer");
    if (H5Aread(opened.attribute, H5T_NATIVE_INT64, &value) < 0) unreadable_attribute(name, path);
    return value;
}

std::vector<double> double_attributes(hid_t object, const std::string& name, const std::string& path) {
    const Opened opened = open_attribute(object, name, H5T_FLOAT, path);
    std::vector<double> values(opened.count);
    if (opened.count > 0 && H5Aread(opened.attribute, H5T_NATIVE_DOUBLE, values.data()) < 0)
        unreadable_attribute(name, path);
    return values;
}

std::vector<std::string> string_attributes(hid_t object, const std::string& name, const std::string& path) {
    const Opened opened = open_attribute(object, name, H5T_STRING, path);
    if (H5Tis_variable_str(opened.type) > 0)
        fail(Exit::bad_input,
             path + ": attribute " + name + " holds strings of variable length; write them as bytes (input/README.md)");
    return fixed_strings(opened, name, path);
}

}  // namespace convoy::h5
