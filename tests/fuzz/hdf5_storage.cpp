// Hostile chunks, types and formats, made through HDF5's own API.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "data/fletcher32.h"
#include "data/hdf5.h"
#include "tests/fuzz/fuzz_bytes.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using h5::Handle;

/// Returns the paths of all data sets, or of all objects.
std::vector<std::string> paths_in(hid_t file, bool data_sets_alone) {
    struct Found {
        bool data_sets_alone;
        std::vector<std::string> paths{};
    } found{data_sets_alone};
    const auto note = [](hid_t from, const char* path, const H5L_info_t* link, void* out) -> herr_t {
        auto& all = *static_cast<Found*>(out);
        if (link->type != H5L_TYPE_HARD) return 0;
        const Handle object(H5Oopen(from, path, H5P_DEFAULT));
        if (!all.data_sets_alone || H5Iget_type(object) == H5I_DATASET) all.paths.emplace_back(path);
        return 0;
    };
    H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, note, &found);
    return found.paths;
}

Handle opened_to_edit(const std::string& path) {
    Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    require(file.valid(), "the file is good before it is edited");
    return file;
}

std::vector<hsize_t> dims_of(hid_t space) {
    std::vector<hsize_t> dims(size_t(std::max(0, H5Sget_simple_extent_ndims(space))));
    if (!dims.empty()) H5Sget_simple_extent_dims(space, dims.data(), nullptr);
    return dims;
}

void replace_chunk(hid_t set, FuzzBytes& c) {
    const Handle layout(H5Dget_create_plist(set)), type(H5Dget_type(set)), space(H5Dget_space(set));
    std::vector<hsize_t> chunk = dims_of(space), at(chunk.size(), 0);
    // HDF5 1.10 crashes when it writes a chunk of a set without rows.
    if (chunk.empty() || chunk[0] == 0 || H5Pget_layout(layout) != H5D_CHUNKED) return;
    const hsize_t rows = chunk[0];
    H5Pget_chunk(layout, int(chunk.size()), chunk.data());
    at[0] = c.number(1) % ((rows - 1) / chunk[0] + 1) * chunk[0];
    size_t bytes = H5Tget_size(type);
    for (const hsize_t side : chunk) bytes *= side;
    const size_t sizes[] = {bytes + 4, bytes, 0, 4, 8, bytes / 2, bytes + 3, bytes + 5, 2 * bytes, c.number(2)};
    std::vector<uint8_t> raw(std::min<size_t>(sizes[c.below(std::size(sizes))], 1 << 20), uint8_t(c.number(1)));
    if (raw.size() > 4 && c.yes()) {
        const uint32_t sum = fletcher32(raw.data(), raw.size() - 4);
        for (size_t i = 0; i < 4; ++i) raw[raw.size() - 4 + i] = uint8_t(sum >> 8 * i);
    }
    const uint32_t skipped = c.below(4) == 0 ? uint32_t(c.number(4)) : 0;
    H5Dwrite_chunk(set, H5P_DEFAULT, skipped, at.data(), raw.size(), raw.data());
}

Handle odd_type(FuzzBytes& c) {
    const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_I32LE,  H5T_STD_I64LE,  H5T_STD_I64BE,
                           H5T_STD_U16BE, H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    Handle type(H5Tcopy(types[c.below(std::size(types))]));
    const bool real = H5Tget_class(type) == H5T_FLOAT;
    for (size_t edits = c.below(4); edits > 0; --edits) switch (c.below(real ? 6 : 3)) {
            case 0: H5Tset_offset(type, c.number(c.yes() ? 1 : 2)); break;
            case 1: H5Tset_precision(type, c.number(1) + 1); break;
            case 2: H5Tset_size(type, c.number(c.yes() ? 1 : 2) + 1); break;
            case 3: H5Tset_ebias(type, c.number(2)); break;
            case 4: {
                const size_t sign = c.number(1), exponent = c.number(1), exponent_bits = c.number(1);
                H5Tset_fields(type, sign, exponent, exponent_bits, c.number(1), c.number(1));
                break;
            }
            default: H5Tset_norm(type, c.yes() ? H5T_NORM_NONE : H5T_NORM_MSBSET);
        }
    return type;
}

void replace_with_odd_set(hid_t file, const std::string& path, FuzzBytes& c) {
    Handle set(H5Dopen2(file, path.c_str(), H5P_DEFAULT));
    const Handle layout(H5Dget_create_plist(set)), space(H5Dget_space(set)), type = odd_type(c);
    set = Handle();
    if (H5Pget_layout(layout) == H5D_VIRTUAL) return;  // HDF5 1.10 overwrites its stack when it converts these
    H5Ldelete(file, path.c_str(), H5P_DEFAULT);
    const Handle fresh(H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (!fresh.valid() || count <= 0 || count > 1 << 16) return;
    const std::vector<uint8_t> values(size_t(count) * H5Tget_size(type), uint8_t(c.number(1)));
    H5Dwrite(fresh, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

void replace_with_odd_attribute(hid_t object, FuzzBytes& c) {
    const int count = H5Aget_num_attrs(object);
    if (count <= 0) return;
    char name[256] = "";
    {
        const Handle old(
            H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, c.below(size_t(count)), H5P_DEFAULT, H5P_DEFAULT));
        H5Aget_name(old, sizeof name, name);
    }
    const Handle old(H5Aopen(object, name, H5P_DEFAULT)), space(H5Aget_space(old)), type = odd_type(c);
    H5Adelete(object, name);
    const Handle fresh(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    const hssize_t elements = H5Sget_simple_extent_npoints(space);
    const std::vector<uint8_t> values(size_t(std::max<hssize_t>(1, elements)) * H5Tget_size(type),
                                      uint8_t(c.number(1)));
    if (fresh.valid()) H5Awrite(fresh, type, values.data());
}

}  // namespace

void make_chunks_hostile(const std::string& path, std::span<const uint8_t> bytes) {
    FuzzBytes c(bytes);
    const Handle file = opened_to_edit(path);
    const std::vector<std::string> sets = paths_in(file, true);
    for (size_t edits = c.below(4) + 1; edits > 0 && !sets.empty(); --edits) {
        const Handle set(H5Dopen2(file, sets[c.below(sets.size())].c_str(), H5P_DEFAULT));
        replace_chunk(set, c);
    }
}

void make_types_hostile(const std::string& path, std::span<const uint8_t> bytes) {
    if (!bytes.empty() && (bytes[0] & 1)) return move_bits_of_types(path, bytes.subspan(1));
    FuzzBytes c(bytes.empty() ? bytes : bytes.subspan(1));
    const Handle file = opened_to_edit(path);
    const std::vector<std::string> sets = paths_in(file, true);
    for (size_t edits = c.below(4) + 1; edits > 0; --edits)
        if (c.yes() && !sets.empty()) {
            replace_with_odd_set(file, sets[c.below(sets.size())], c);
        } else {
            const bool run = c.yes() && H5Lexists(file, "run", H5P_DEFAULT) > 0;  // metric files have it
            replace_with_odd_attribute(Handle(H5Gopen2(file, run ? "run" : "/", H5P_DEFAULT)), c);
        }
}

void make_old_hostile(const std::string& path, std::span<const uint8_t> bytes) {
    FuzzBytes c(bytes);
    {
        const Handle from = opened_to_edit(path), root(H5Gopen2(from, "/", H5P_DEFAULT)),
                     to(H5Fcreate((path + ".old").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        const Handle how(H5Pcreate(H5P_OBJECT_COPY));
        H5Pset_copy_object(how, H5O_COPY_WITHOUT_ATTR_FLAG);  // HDF5 1.10 crashes when it copies many texts
        for (const std::string& name : paths_in(from, false))
            if (name.find('/') == std::string::npos) H5Ocopy(from, name.c_str(), to, name.c_str(), how, H5P_DEFAULT);
        for (int i = 0; i < H5Aget_num_attrs(root); ++i) {
            char name[256] = "";
            const Handle a(H5Aopen_by_idx(root, ".", H5_INDEX_NAME, H5_ITER_INC, hsize_t(i), H5P_DEFAULT, H5P_DEFAULT));
            H5Aget_name(a, sizeof name, name);
            const Handle type(H5Aget_type(a)), space(H5Aget_space(a));
            const Handle copy(H5Acreate2(to, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
            std::vector<uint8_t> value(size_t(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
            if (H5Aread(a, type, value.data()) >= 0) H5Awrite(copy, type, value.data());
            H5Dvlen_reclaim(type, space, H5P_DEFAULT, value.data());
        }
    }
    std::filesystem::rename(path + ".old", path);
    std::string file = read_file(path);
    for (size_t edits = c.below(7); edits > 0; --edits) {
        const size_t at = c.number(c.yes() ? 2 : 3) % file.size();
        file[at] = char(c.yes() ? 0xff : c.number(1));
    }
    write_file(path, file);
}

}  // namespace convoy::test
