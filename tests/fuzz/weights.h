// Readers of files of weights for tests/fuzz/readers.h.
#pragma once
#include <string>

#include "tests/fuzz/readers.h"

namespace convoy::test {

// Each throws Exit::bad_input if the file is refused.
void read_safetensors(const std::string& dir, Bytes);
void read_pth(const std::string& dir, Bytes);
void read_old_pth(const std::string& dir, Bytes);

}  // namespace convoy::test
