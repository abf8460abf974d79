// Opens TIFF files in memory with libtiff, which then prints nothing.
#pragma once
#include <tiffio.h>

#include <cstdarg>
#include <memory>

#include "data/image_file.h"

namespace convoy {

/// A file for libtiff, and the first thing that libtiff complained about. libtiff has its address.
struct TiffInput {
    FileBytes bytes;
    uint64_t at = 0;              ///< where libtiff reads next
    bool warnings_count = false;  ///< warnings are problems, too: a decoder's mean missing pixels
    char problem[256] = "";       ///< empty: none

    void complain(const char* format, va_list values);
};

using TiffHandle = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

/// Opens the first directory of a file; null if libtiff cannot read it, and `input.problem` then
/// has the reason.
TiffHandle open_tiff(TiffInput& input);

}  // namespace convoy
