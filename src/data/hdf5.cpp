// HDF5's own printing to stderr is switched off in open() and create(), because every failure
// becomes one Error line (data/hdf5_failure.h).
#include "data/hdf5.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/durable.h"
#include "base/shorten.h"
#include "data/hdf5_descriptor.h"
#include "data/hdf5_failure.h"
#include "data/hdf5_structure.h"
#include "data/hdf5_superblock.h"
#include "data/hdf5_untrusted.h"
#include "data/input_bytes.h"

#define CONVOY_HDF5_LOCKS_BY_FILE (H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0)))

namespace convoy::h5 {
namespace {

// HDF5's clean-up at exit crashes after a failed write (disk full). It is not needed, because
// h5::close() completes files. This call must come before all others of HDF5, including the call
// that a type such as H5T_IEEE_F32LE hides.
[[maybe_unused]] const herr_t no_cleanup_at_exit = H5dont_atexit();

/// Switches off HDF5's printing, and the filter libraries that a file could make it load. Call
/// before a file is opened.
void silence() {
    [[maybe_unused]] static const herr_t no_plugins = H5PLset_loading_state(0);
#if !CONVOY_HDF5_LOCKS_BY_FILE
    [[maybe_unused]] static const int no_locks = ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", /*overwrite=*/0);
#endif
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Handle file_access() {
    silence();
    Handle access = access_without_lock();
    if (H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0)
        fail(Exit::io, "HDF5 refuses the V110 file format" + because());
    return access;
}

#if H5_VERSION_GE(1, 12, 0)
constexpr auto link_info = H5Lget_info1;
#else
constexpr auto link_info = H5Lget_info;
#endif

/// Returns the name of a data set as an absolute path, for messages.
std::string shown(const std::string& name) { return name.starts_with('/') ? name : "/" + name; }

Element element_of(hid_t type) {
    const auto is = [&](hid_t little, hid_t big) { return H5Tequal(type, little) > 0 || H5Tequal(type, big) > 0; };
    if (is(H5T_STD_U8LE, H5T_STD_U8BE)) return Element::u8;
    if (is(H5T_STD_I32LE, H5T_STD_I32BE)) return Element::i32;
    if (is(H5T_STD_I64LE, H5T_STD_I64BE)) return Element::i64;
    if (is(H5T_IEEE_F32LE, H5T_IEEE_F32BE)) return Element::f32;
    if (is(H5T_IEEE_F64LE, H5T_IEEE_F64BE)) return Element::f64;
    const bool is_text = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
    return is_text ? Element::text : Element::other;
}

/// Selects rows [first, first + rows) of the file space and makes the matching memory space.
std::pair<Handle, Handle> select_rows(hid_t dataset, hsize_t first, hsize_t rows) {
    Handle in_file(H5Dget_space(dataset));
    const int rank = H5Sget_simple_extent_ndims(in_file);
    require(rank >= 1 && rank <= H5S_MAX_RANK, "a data set with rows has a rank of at least one");
    std::vector<hsize_t> count(static_cast<size_t>(rank)), start(static_cast<size_t>(rank), 0);
    H5Sget_simple_extent_dims(in_file, count.data(), nullptr);
    require(first <= count[0] && rows <= count[0] - first, "rows beyond the end of a data set");
    start[0] = first;
    count[0] = rows;
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    Handle in_memory(H5Screate_simple(rank, count.data(), nullptr));
    return {std::move(in_file), std::move(in_memory)};
}

}  // namespace

std::string library_version() {
    silence();
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

Handle& Handle::operator=(Handle&& other) noexcept {
    if (this != &other) {
        Handle old(id_);  // closes what this owned
        id_ = other.release();
    }
    return *this;
}

Handle::~Handle() {
    if (id_ >= 0 && H5Iis_valid(id_) > 0) H5Idec_ref(id_);
}

Handle access_without_lock() {
    Handle access(H5Pcreate(H5P_FILE_ACCESS));
#if CONVOY_HDF5_LOCKS_BY_FILE
    H5Pset_file_locking(access, /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
#endif
    return access;
}

Handle open(const std::string& path) { return open(InputBytes(path, check_path)); }

Handle open(const InputBytes& bytes) {
    silence();
    check_structure(bytes);
    return open_descriptor(bytes.descriptor(), bytes.path());
}

Handle create(const FilePlace& place, Chunks chunks) {
    const Handle access = file_access(), creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_obj_track_times(creation, false);  // the same content gives the same bytes
    if (chunks == Chunks::at_once) H5Pset_cache(access, 0, 0, 0, 0);
    // H5F_ACC_EXCL, because HDF5 would otherwise follow a link that another user puts there.
    if (::unlink(place.opened.c_str()) != 0 && errno != ENOENT) cannot_write(place.shown);
    Handle file(H5Fcreate(place.opened.c_str(), H5F_ACC_EXCL, creation, access));
    if (!file.valid()) fail_to_create(place.shown);
    return file;
}

Handle create_in_memory() {
    const Handle access = file_access();
    constexpr size_t growth = 1 << 20;  // bytes the image grows by
    H5Pset_fapl_core(access, growth, /*backing_store=*/false);
    Handle file(H5Fcreate("/dev/null/convoy-in-memory", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    if (!file.valid()) fail(Exit::io, "cannot create an HDF5 file in memory" + because());
    return file;
}

std::vector<unsigned char> image(hid_t file) {
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) fail(Exit::io, "cannot flush an HDF5 file in memory" + because());
    const ssize_t size = H5Fget_file_image(file, nullptr, 0);
    std::vector<unsigned char> bytes(size > 0 ? static_cast<size_t>(size) : 0);
    if (size <= 0 || H5Fget_file_image(file, bytes.data(), bytes.size()) != size)
        fail(Exit::io, "cannot take the image of an HDF5 file" + because());
    seal_superblock(bytes);
    return bytes;
}

std::unique_lock<std::mutex> exclusive() {
    static std::mutex mutex;  // as global as the library it guards
    return std::unique_lock(mutex);
}

void close(Handle file, const std::string& path) {
    const bool flushed = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0;
    const std::string reason = flushed ? "" : because();
    if (H5Fclose(file.release()) < 0 || !flushed)
        fail(Exit::io, path + ": cannot be written to the end" + reason + "; is the disk full?");
}

Extent extent(hid_t file, const std::string& dataset, const std::string& path) {
    const Handle set = open_dataset(file, dataset, path), type(H5Dget_type(set));
    ChunkLayout chunks = checked_chunks(set, shown(dataset), path);
    if (!type.valid()) fail_to_read(path, shown(dataset), "make it again");
    return {.dims = std::move(chunks.dims),
            .element = element_of(type),
            .element_bytes = H5Tget_size(type),
            .chunk = std::move(chunks.chunk),
            .chunk_bytes = chunks.bytes,
            .stored_bytes = H5Dget_storage_size(set)};
}

Handle create_dataset(hid_t file, const std::string& name, hid_t type, std::vector<hsize_t> dims,
                      std::vector<hsize_t> chunk, const std::string& path) {
    require(!dims.empty() && dims.size() == chunk.size(), "chunk and dims have the same rank");
    for (size_t i = 0; i < dims.size(); ++i) chunk[i] = std::max<hsize_t>(1, std::min(chunk[i], dims[i]));
    const int rank = static_cast<int>(dims.size());
    const Handle space(H5Screate_simple(rank, dims.data(), nullptr));
    const Handle layout(H5Pcreate(H5P_DATASET_CREATE)), links(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links, 1);
    H5Pset_chunk(layout, rank, chunk.data());
    H5Pset_fletcher32(layout);
    H5Pset_obj_track_times(layout, false);
    Handle set(H5Dcreate2(file, name.c_str(), type, space, links, layout, H5P_DEFAULT));
    if (!set.valid()) fail(Exit::io, path + ": cannot create " + shown(name) + because());
    return set;
}

void write_rows(hid_t dataset, hid_t memory_type, hsize_t first, hsize_t rows, const void* from,
                const std::string& path) {
    if (rows == 0) return;
    const auto [in_file, in_memory] = select_rows(dataset, first, rows);
    if (H5Dwrite(dataset, memory_type, in_memory, in_file, H5P_DEFAULT, from) >= 0) return;
    const std::string reason = because();
    fail(Exit::io, path + ": cannot write " + name_of(dataset) + reason + "; is the disk full?");
}

Handle write_texts(hid_t file, const std::string& name, const std::vector<std::string>& texts, size_t most,
                   hsize_t chunk_rows, const std::string& path) {
    std::vector<std::string> values;
    size_t width = 1;  // HDF5 does not allow width zero
    for (const std::string& text : texts) width = std::max(width, values.emplace_back(shortened(text, most)).size());
    std::string padded;
    for (const std::string& value : values) padded += value + std::string(width - value.size(), '\0');
    const Handle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, width);
    H5Tset_cset(type, H5T_CSET_UTF8);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    Handle set = create_dataset(file, name, type, {values.size()}, {chunk_rows}, path);
    write_rows(set, type, 0, values.size(), padded.data(), path);
    return set;
}

void read_rows(hid_t dataset, hid_t memory_type, hsize_t first, hsize_t rows, void* to, const std::string& path) {
    if (rows == 0) return;
    const ChunkLayout chunks = checked_chunks(dataset, name_of(dataset), path);
    const auto [in_file, in_memory] = select_rows(dataset, first, rows);
    check_stored_chunks(dataset, chunks, first, rows, path);
    if (H5Dread(dataset, memory_type, in_memory, in_file, H5P_DEFAULT, to) >= 0) return;
    fail_to_read_rows(dataset, path);
}

bool has(hid_t file, const std::string& name) {
    silence();
    const auto linked = [&](const std::string& part) {
        LinkInfo link;
        if (!exists_in(H5Lexists(file, part.c_str(), H5P_DEFAULT), file, part) ||
            link_info(file, part.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)
            return false;
        check_object(file, shown(part), link.u.address, path_of(file));
        return true;
    };
    for (size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1))
        if (!linked(name.substr(0, slash))) return false;
    return linked(name);
}

Handle open_dataset(hid_t file, const std::string& name, const std::string& path) {
    silence();
    if (!has(file, name))
        fail(Exit::bad_input, path + ": has no data set " + shown(name) + "; was this file made by convoy?");
    Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
    if (!set.valid()) fail_to_read(path, shown(name), "make it again");
    checked_chunks(set, shown(name), path);
    return set;
}

}  // namespace convoy::h5
