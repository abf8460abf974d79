// Opens TIFF files in memory with libtiff, which then prints nothing.
#pragma once
#include <tiffio.h>

#include <cstdarg>
#include <memory>

#include "data/image_file.h"

namespace convoy {

/// A file for libtiff, and libtiff's first complaint about it. Do not move it, because libtiff has
/// its address.
struct TiffInput {
    FileBytes bytes;
    uint64_t at = 0;              ///< offset at which libtiff reads next
    bool warnings_count = false;  ///< true: a warning is a problem, because pixels may be missing
    char problem[256] = "";       ///< empty: none

    void complain(const char* format, va_list values);
};

using TiffHandle = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

/// Opens the first directory of a file. Returns null if libtiff cannot read it; `input.problem`
/// then has the reason.
TiffHandle open_tiff(TiffInput& input);

}  // namespace convoy
