// What viewers of HDF5 files show as pictures: a data set next to /images, as HDF5's image
// specification has it.
#pragma once
#include <string>

#include "data/hdf5.h"

namespace convoy {

/// Adds /pictures, a virtual data set of the pixels in /images, which are stored once. Viewers that
/// know HDF5's image specification (version 1.2) show it as it is:
/// - 1 channel: [image, height, width], a grey picture a page;
/// - 3 channels: [height, width, 3], up to 100 of the shard's first images, in columns of up to 10.
/// The specification has no place for other numbers of channels, nor for a batch of colour images.
/// So /images itself cannot be marked: HDFView would take its first three extents for height, width
/// and colour. Convoy reads /images only.
void write_pictures(hid_t file, const std::string& path);

}  // namespace convoy
