// Readers of pictures for tests/fuzz/readers.h.
#pragma once
#include <string>

#include "tests/fuzz/readers.h"

namespace convoy::test {

/// Changes bytes of `file` at positions from `bytes`: three bytes per position, one for the new
/// value.
std::string changed(std::string file, Bytes bytes);

// Each throws Exit::bad_input if the picture is refused. The folder is not used.
void read_jpeg(const std::string& dir, Bytes);
void read_webp(const std::string& dir, Bytes);
void read_gif(const std::string& dir, Bytes);
void read_bmp(const std::string& dir, Bytes);
void read_tiff(const std::string& dir, Bytes);

}  // namespace convoy::test
