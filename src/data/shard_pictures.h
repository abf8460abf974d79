// Adds a data set that viewers of HDF5 files show as pictures, according to HDF5's image
// specification.
#pragma once
#include <string>

#include "data/hdf5.h"

namespace convoy {

/// Adds /pictures, a virtual data set of the pixels in /images, which are stored only once. Viewers
/// that know HDF5's image specification (version 1.2) show it without settings:
/// - 1 channel: [image, height, width], one grey picture per page;
/// - 3 channels: [height, width, 3], up to 100 of the shard's first images, in columns of up to 10.
/// The specification covers no other numbers of channels, and no batch of colour images. /images
/// itself cannot be marked as a picture, because HDFView would take its first three extents for
/// height, width and colour. Convoy reads only /images.
void write_pictures(hid_t file, const std::string& path);

}  // namespace convoy
