#include "tests/fuzz/hdf5.h"

#include <algorithm>
#include <array>
#include <vector>

#include "data/hdf5.h"
#include "tests/fuzz/fuzz_bytes.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using h5::Handle;

Handle a_type(FuzzBytes& c) {
    switch (c.below(12)) {
        case 0: return Handle(H5Tcopy(H5T_STD_U8LE));
        case 1: return Handle(H5Tcopy(H5T_STD_I32LE));
        case 2: return Handle(H5Tcopy(H5T_IEEE_F32LE));
        case 3: return Handle(H5Tcopy(H5T_STD_I64BE));
        case 4: return Handle(H5Tcopy(H5T_IEEE_F64LE));
        case 5: return Handle(H5Tcopy(H5T_STD_REF_OBJ));
        case 6: return Handle(H5Tvlen_create(H5T_STD_U8LE));
        case 7: return Handle(H5Tenum_create(H5T_STD_I32LE));
        case 8: {
            const hsize_t dims[] = {c.number(2) + 1};
            return Handle(H5Tarray_create2(H5T_STD_U8LE, 1, dims));
        }
        case 9: return Handle(H5Tcreate(H5T_OPAQUE, size_t(c.number(3)) + 1));
        case 10: {
            Handle type(H5Tcopy(H5T_C_S1));
            H5Tset_size(type, H5T_VARIABLE);
            return type;
        }
        default: {
            Handle type(H5Tcopy(H5T_C_S1));
            H5Tset_size(type, size_t(c.number(3)) + 1);
            return type;
        }
    }
}

Handle a_space(FuzzBytes& c) {
    static constexpr std::array<hsize_t, 12> sides = {
        1, 2, 3, 4, 6, 10, 0, 1 << 20, hsize_t(1) << 31, hsize_t(1) << 32, hsize_t(1) << 62, ~hsize_t(1)};
    const size_t rank = c.below(7);
    if (rank == 5) return Handle(H5Screate(H5S_SCALAR));
    if (rank == 6) return Handle(H5Screate(H5S_NULL));
    std::vector<hsize_t> dims(rank);
    for (hsize_t& side : dims) side = sides[c.below(sides.size())];
    return Handle(H5Screate_simple(int(rank), dims.data(), nullptr));
}

/// Writes zeros, or the input's own bytes if there are few. HDF5 allocates memory for every chunk,
/// and chunks may be small.
template <class Write> void fill(hid_t type, hid_t space, FuzzBytes& c, Write write) {
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    const size_t size = H5Tget_size(type);
    if (count <= 0 || count > 4096 || H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tis_variable_str(type) > 0 ||
        size_t(count) > (size_t(1) << 20) / size)
        return;
    std::vector<uint8_t> bytes(size_t(count) * size);
    for (size_t i = 0; i < std::min<size_t>(bytes.size(), 32); ++i) bytes[i] = uint8_t(c.number(1));
    write(bytes.data());
}

void replace_attribute(hid_t file, FuzzBytes& c) {
    std::vector<std::string> names;
    H5Aiterate2(
        file, H5_INDEX_NAME, H5_ITER_INC, nullptr,
        [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
            static_cast<std::vector<std::string>*>(out)->emplace_back(name);
            return 0;
        },
        &names);
    if (names.empty()) return;
    const std::string name = names[c.below(names.size())];
    H5Adelete(file, name.c_str());
    if (c.below(8) == 0) return;
    const Handle type = a_type(c), space = a_space(c);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    // HDF5 would write everything at once
    if (count < 0 || size_t(count) > (size_t(4) << 20) / H5Tget_size(type)) return;
    const Handle attribute(H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (attribute.valid()) fill(type, space, c, [&](const void* bytes) { H5Awrite(attribute, type, bytes); });
}

Handle a_layout(hid_t space, FuzzBytes& c) {
    Handle layout(H5Pcreate(H5P_DATASET_CREATE));
    std::vector<hsize_t> dims(size_t(std::max(0, H5Sget_simple_extent_ndims(space))));
    if (!dims.empty()) H5Sget_simple_extent_dims(space, dims.data(), nullptr);
    switch (c.below(5)) {
        case 0: break;  // contiguous
        case 1: H5Pset_layout(layout, H5D_COMPACT); break;
        case 2: H5Pset_external(layout, "/etc/hostname", 0, H5F_UNLIMITED); break;
        default:
            for (hsize_t& side : dims) side = c.yes() ? std::max<hsize_t>(1, side) : c.number(2) + 1;
            if (!dims.empty()) H5Pset_chunk(layout, int(dims.size()), dims.data());
            if (c.yes()) H5Pset_deflate(layout, 6);
            if (c.yes()) H5Pset_shuffle(layout);
            if (!c.yes()) H5Pset_fletcher32(layout);
    }
    return layout;
}

/// Returns false if the file must not be changed any more: HDF5 1.10 overwrites its own memory when
/// a link from the root to the root is deleted.
bool replace_data_set(hid_t file, FuzzBytes& c) {
    std::vector<std::string> paths;
    H5Lvisit(
        file, H5_INDEX_NAME, H5_ITER_INC,
        [](hid_t, const char* path, const H5L_info_t*, void* out) -> herr_t {
            static_cast<std::vector<std::string>*>(out)->emplace_back(path);
            return 0;
        },
        &paths);
    if (paths.empty()) return true;
    const std::string path = paths[c.below(paths.size())];
    H5Ldelete(file, path.c_str(), H5P_DEFAULT);
    switch (c.below(10)) {
        case 0: return true;
        case 1: Handle(H5Gcreate2(file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); return true;
        // a link to itself
        case 2: H5Lcreate_soft(("/" + path).c_str(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT); return true;
        case 3: H5Lcreate_hard(file, "/", file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT); return false;
        case 4:
            H5Lcreate_external(c.yes() ? "pipe" : "/dev/zero", "/images", file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
            return true;
        case 5: {
            const Handle type = a_type(c);
            H5Tcommit2(file, path.c_str(), type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            return true;
        }
        default: {
            const Handle type = a_type(c), space = a_space(c), layout = a_layout(space, c);
            const Handle set(H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, layout, H5P_DEFAULT));
            if (set.valid())
                fill(type, space, c,
                     [&](const void* bytes) { H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes); });
        }
    }
    return true;
}

}  // namespace

void make_hostile_of_kind(size_t kind, const std::string& path, std::span<const uint8_t> bytes) {
    constexpr decltype(&make_hostile) kinds[] = {make_chunks_hostile, make_types_hostile, make_old_hostile,
                                                 make_structure_hostile};
    kinds[kind](path, bytes);
}

void make_hostile(const std::string& path, std::span<const uint8_t> bytes) {
    FuzzBytes c(bytes);
    const size_t objects = c.below(8), flips = c.below(4);
    if (objects > 0) {
        Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        require(file.valid(), "the file is good before it is edited");
        bool more = true;
        for (size_t i = 0; i < objects && more; ++i)
            if (c.yes())
                replace_attribute(file, c);
            else
                more = replace_data_set(file, c);
        H5Fclose(file.release());
    }
    std::string content = read_file(path);
    for (size_t i = 0; i < flips; ++i) content[c.number(3) % content.size()] ^= char(c.number(1));
    if (c.below(4) == 3) content.resize(c.number(3) % content.size());
    write_file(path, content);
}

}  // namespace convoy::test
