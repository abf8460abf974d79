#include "data/shard_pictures.h"

#include <hdf5_hl.h>

#include <algorithm>

namespace convoy {
namespace {

using Dims = std::vector<hsize_t>;

constexpr const char* name = "/pictures";
constexpr hsize_t most_columns = 10, most_rows = 10;

/// A part of a data set's extent: `count` elements in each dimension, beginning at `start`.
struct Block {
    Dims start, count;
};

h5::Handle space_of(const Dims& dims) { return h5::Handle(H5Screate_simple(int(dims.size()), dims.data(), nullptr)); }

h5::Handle selected(const Dims& dims, const Block& block) {
    h5::Handle space = space_of(dims);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, block.start.data(), nullptr, block.count.data(), nullptr);
    return space;
}

void check(herr_t status, const std::string& path) {
    if (status < 0) fail(Exit::io, path + ": cannot write " + name + h5::because() + "; is the disk full?");
}

/// Creates the virtual data set. Each pair of `from_to` is a block of /images, and the block of
/// /pictures that shows its elements in the same order.
void create(hid_t file, const Dims& images, const Dims& pictures, const std::vector<std::pair<Block, Block>>& from_to,
            const std::string& path) {
    const h5::Handle layout(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_obj_track_times(layout, false);  // the same content gives the same bytes
    for (const auto& [from, to] : from_to)
        check(H5Pset_virtual(layout, selected(pictures, to), ".", "/images", selected(images, from)), path);
    const h5::Handle set(H5Dcreate2(file, name, H5T_STD_U8LE, space_of(pictures), H5P_DEFAULT, layout, H5P_DEFAULT));
    check(set.valid() ? 0 : -1, path);
}

/// Adds attributes as the specification requires: ASCII, ended by a zero.
void describe(hid_t file, const std::vector<std::pair<const char*, const char*>>& attributes, const std::string& path) {
    for (const auto& [attribute, value] : attributes)
        check(H5LTset_attribute_string(file, name, attribute, value), path);
}

void write_grey(hid_t file, const Dims& images, const std::string& path) {
    const Dims pages(images.begin(), images.end() - 1);
    create(file, images, pages, {{{{0, 0, 0, 0}, images}, {{0, 0, 0}, pages}}}, path);
    describe(file, {{"CLASS", "IMAGE"}, {"IMAGE_VERSION", "1.2"}, {"IMAGE_SUBCLASS", "IMAGE_GRAYSCALE"}}, path);
}

/// Arranges images column by column. A column is then a single block: consecutive images, with
/// their pixels in the same order.
void write_colour(hid_t file, const Dims& images, const std::string& path) {
    const hsize_t shown = std::min(images[0], most_columns * most_rows), height = images[1], width = images[2];
    const hsize_t rows = (shown + most_columns - 1) / most_columns, columns = (shown + rows - 1) / rows;
    std::vector<std::pair<Block, Block>> from_to;
    for (hsize_t column = 0; column < columns; ++column) {
        const hsize_t first = column * rows, count = std::min(rows, shown - first);
        from_to.push_back(
            {{{first, 0, 0, 0}, {count, height, width, 3}}, {{0, column * width, 0}, {count * height, width, 3}}});
    }
    create(file, images, {rows * height, columns * width, 3}, from_to, path);
    describe(file,
             {{"CLASS", "IMAGE"},
              {"IMAGE_VERSION", "1.2"},
              {"IMAGE_SUBCLASS", "IMAGE_TRUECOLOR"},
              {"INTERLACE_MODE", "INTERLACE_PIXEL"}},
             path);
}

}  // namespace

void write_pictures(hid_t file, const std::string& path) {
    const Dims images = h5::extent(file, "/images", path).dims;
    if (images.at(3) == 1) write_grey(file, images, path);
    if (images.at(3) == 3) write_colour(file, images, path);
}

}  // namespace convoy
