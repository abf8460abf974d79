// Checks a TIFF's first directory before libtiff reads it. libtiff copies the values of all tags,
// and each of thousands of tags may claim the same megabytes of the file.
#pragma once
#include "data/image_file.h"

namespace convoy {

/// Throws BadImage if the first directory is not whole, or if the values of its tags together take
/// more than twice the bytes of the file.
void check_tiff_directory(FileBytes);

}  // namespace convoy
