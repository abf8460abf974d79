#include "data/chunk_places.h"

#include "base/input_file.h"
#include "data/fletcher32.h"
#include "data/shard_checks.h"

namespace convoy {
namespace {

// A chunk as HDF5 describes it. If HDF5 did not find it, `address` is HADDR_UNDEF.
struct FoundChunk {
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;     ///< in the file
    unsigned skipped = 0;  ///< a bit for each filter that was not applied
};

#if H5_VERSION_GE(1, 14, 0)

struct Search {
    std::vector<FoundChunk> found;
    hsize_t rows;  ///< of a chunk
};

std::vector<FoundChunk> find_chunks(hid_t set, size_t, size_t chunks, hsize_t rows, const std::string& name,
                                    const std::string& path) {
    Search search{std::vector<FoundChunk>(chunks), rows};
    const auto note = [](const hsize_t* first, unsigned skipped, haddr_t address, hsize_t bytes, void* to) -> int {
        Search& all = *static_cast<Search*>(to);
        const hsize_t chunk = first[0] / all.rows;
        if (chunk < all.found.size()) all.found[chunk] = {address, bytes, skipped};
        return H5_ITER_CONT;
    };
    if (H5Dchunk_iter(set, H5P_DEFAULT, note, &search) < 0)
        h5::fail_to_read(path, "the chunks of " + name, "convert the data set again");
    return std::move(search.found);
}

#else

// HDF5 starts at the first chunk whenever it searches for one.
constexpr size_t most_chunks = 32'768;

std::vector<FoundChunk> find_chunks(hid_t set, size_t rank, size_t chunks, hsize_t rows, const std::string& name,
                                    const std::string& path) {
    if (chunks > most_chunks)
        fail(Exit::bad_input, path + ": " + name + " is in " + std::to_string(chunks) + " chunks, and HDF5 " +
                                  h5::library_version() + " finds at most " + std::to_string(most_chunks) +
                                  " in good time; convert the data set to more --shards");
    std::vector<FoundChunk> found(chunks);
    std::vector<hsize_t> first(rank, 0);
    for (FoundChunk& chunk : found) {
        if (H5Dget_chunk_info_by_coord(set, first.data(), &chunk.skipped, &chunk.address, &chunk.bytes) < 0)
            h5::fail_to_read(path, "the chunks of " + name, "convert the data set again");
        first[0] += rows;
    }
    return found;
}

#endif

/// Refuses data sets whose bytes in the file are not those that HDF5 would return.
void check_layout(hid_t file, hid_t set, const h5::Extent& extent, hid_t stored, const std::string& name,
                  const std::string& path) {
    const h5::Handle creation(H5Fget_create_plist(file)), type(H5Dget_type(set));
    hsize_t before = 0;  // size of a user block; HDF5 counts addresses from its end
    if (H5Pget_userblock(creation, &before) < 0 || before != 0)
        fail(Exit::bad_input, path + ": does not begin with its HDF5 part; make it with 'convoy convert'");
    if (H5Tequal(type, stored) <= 0)
        fail(Exit::bad_input, path + ": the elements of " + name +
                                  " are not little-endian, or do not use all their bits; " +
                                  "make it with 'convoy convert'");
    const h5::Handle space(H5Dget_space(set));
    std::vector<hsize_t> most(extent.dims.size());
    const bool known = H5Sget_simple_extent_dims(space, nullptr, most.data()) >= 0;
    // If another side than the first may grow, the index can name several chunks for the same rows.
    // H5Dread() and the search for chunks may then find different ones.
    for (size_t i = 1; i < extent.dims.size(); ++i)
        if (!known || extent.chunk[i] != extent.dims[i] || most[i] != extent.dims[i])
            fail(Exit::bad_input,
                 path + ": the chunks of " + name + " are not of whole rows; make it with 'convoy convert'");
}

}  // namespace

ChunkPlaces locate_chunks(hid_t file, const std::string& name, hid_t stored, const std::string& path) {
    const h5::Extent extent = h5::extent(file, name, path);
    const h5::Handle set = h5::open_dataset(file, name, path);
    check_layout(file, set, extent, stored, name, path);
    const hsize_t rows = extent.chunk[0], chunks = (extent.dims[0] - 1) / rows + 1;
    const uint64_t bytes = extent.chunk_bytes + fletcher32_bytes, end = size_of_input(path, was_it_moved);
    check_stored(extent, chunks * bytes, name, path);  // checked before memory for that many chunks is allocated
    ChunkPlaces places{.bytes = size_t(extent.chunk_bytes), .rows = int64_t(rows), .addresses = {}};
    for (const FoundChunk& chunk : find_chunks(set, extent.dims.size(), size_t(chunks), rows, name, path)) {
        const bool inside = chunk.address != HADDR_UNDEF && bytes <= end && chunk.address <= end - bytes;
        if (!inside || chunk.bytes != bytes || chunk.skipped != 0)
            fail(Exit::bad_input, path + ": chunk " + std::to_string(places.addresses.size()) + " of " + name +
                                      " is missing, without checksum or outside the file: the file is damaged; " +
                                      "convert the data set again");
        places.addresses.push_back(chunk.address);
    }
    return places;
}

}  // namespace convoy
