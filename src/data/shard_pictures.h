// What viewers of HDF5 files show as pictures: a data set beside /images, as HDF5's image
// specification has it.
#pragma once
#include <string>

#include "data/hdf5.h"

namespace convoy {

/// Adds /pictures, a virtual data set of the pixels in /images, which are stored once. Viewers that
/// know HDF5's image specification (version 1.2) show it as it is:
/// - 1 channel: [image, height, width], a grey picture a page;
/// - 3 channels: [height, width, 3], the first images of the shard, at most 100, in columns of up to 10.
/// The specification has no place for other numbers of channels, nor for a batch of colour images,
/// so that /images itself cannot be marked: HDFView would take its first three extents for height,
/// width and colour. Convoy reads /images only.
void write_pictures(hid_t file, const std::string& path);

}  // namespace convoy
