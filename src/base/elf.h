// Lists the shared libraries that a program or shared object needs.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns the DT_NEEDED names, in order; empty if the file is damaged or not a 64-bit ELF file.
/// Does not wait for a pipe.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace convoy
