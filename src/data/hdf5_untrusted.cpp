#include "data/hdf5_untrusted.h"

#include <set>

#include "data/fletcher32.h"
#include "data/hdf5_failure.h"
#include "data/hdf5_structure.h"

namespace convoy::h5 {
namespace {

[[noreturn]] void unusual(const std::string& path, const std::string& what) {
    fail(Exit::bad_input, path + ": " + what + "; was this file made by convoy?");
}

}  // namespace

int descriptor_of(hid_t file, const std::string& path) {
    void* descriptor = nullptr;
    if (H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) < 0) fail_to_read(path, "its bytes", "make it again");
    return *static_cast<int*>(descriptor);
}

unsigned long number_of(hid_t file, const std::string& path) {
    ObjectInfo root{};
    if (H5Oget_info_by_name2(file, "/", &root, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
        fail_to_read(path, "/", "make it again");
    return root.fileno;
}

void check_object(hid_t parent, const std::string& name, uint64_t address, const std::string& path) {
    const Handle file(H5Iget_file_id(parent));
    unsigned intent = 0;
    if (H5Fget_intent(file, &intent) >= 0 && (intent & H5F_ACC_RDWR) != 0) return;  // this process makes the file
    // A group is checked again for each data set in it, so intact objects are remembered.
    static unsigned long known = 0;
    static std::set<uint64_t> sound;  // addresses of intact objects in the file `known`
    if (const unsigned long number = number_of(file, path); number != known) {
        sound.clear();
        known = number;
    }
    if (sound.contains(address)) return;
    check_object_at(descriptor_of(file, path), address, name, path);
    sound.insert(address);
}

ChunkLayout checked_chunks(hid_t dataset, const std::string& name, const std::string& path) {
    const Handle layout(H5Dget_create_plist(dataset));
    if (!layout.valid()) fail_to_read(path, name, "make it again");
    if (H5Pget_layout(layout) != H5D_CHUNKED || H5Pget_nfilters(layout) != 1 ||
        H5Pget_filter_by_id2(layout, H5Z_FILTER_FLETCHER32, nullptr, nullptr, nullptr, 0, nullptr, nullptr) < 0)
        unusual(path, name + " is not stored in plain chunks with Fletcher-32 checksums");
    const Handle space(H5Dget_space(dataset)), type(H5Dget_type(dataset));
    if (!space.valid() || !type.valid()) fail_to_read(path, name, "make it again");
    hsize_t sides[H5S_MAX_RANK] = {};
    const int rank = H5Sget_simple_extent_ndims(space), chunk_rank = H5Pget_chunk(layout, H5S_MAX_RANK, sides);
    if (H5Sget_simple_extent_type(space) != H5S_SIMPLE || rank < 1 || rank > H5S_MAX_RANK || chunk_rank != rank)
        unusual(path, name + " has no simple extent");
    ChunkLayout chunks{.dims = std::vector<hsize_t>(size_t(rank)), .chunk = {sides, sides + rank}};
    H5Sget_simple_extent_dims(space, chunks.dims.data(), nullptr);
    chunks.bytes = H5Tget_size(type);
    for (const hsize_t side : chunks.chunk) {
        if (side == 0 || chunks.bytes == 0 || side > most_chunk_bytes / chunks.bytes)
            unusual(path, name + " has chunks of no bytes, or of more than 64 MiB");
        chunks.bytes *= side;
    }
    return chunks;
}

void check_stored_chunks(hid_t dataset, const ChunkLayout& chunks, hsize_t first, hsize_t rows,
                         const std::string& path) {
    const std::vector<hsize_t>& side = chunks.chunk;
    std::vector<hsize_t> at(side.size(), 0);
    const hsize_t from = first / side[0] * side[0];
    at[0] = from;
    const auto next = [&] {  // counts up like digits; false after the last chunk
        for (size_t i = at.size(); i-- > 0;) {
            const hsize_t end = i == 0 ? first + rows : chunks.dims[i];
            if (end - at[i] > side[i]) {
                at[i] += side[i];
                return true;
            }
            at[i] = i == 0 ? from : 0;
        }
        return false;
    };
    do {
        hsize_t stored = 0;
        if (H5Dget_chunk_storage_size(dataset, at.data(), &stored) < 0) fail_to_read_rows(dataset, path);
        if (stored != chunks.bytes + fletcher32_bytes)
            fail(Exit::bad_input, path + ": the chunk at row " + std::to_string(at[0]) + " of " + name_of(dataset) +
                                      " is stored in " + std::to_string(stored) + " bytes instead of " +
                                      std::to_string(chunks.bytes + fletcher32_bytes) +
                                      ": the file is damaged; make it again");
    } while (next());
}

}  // namespace convoy::h5
